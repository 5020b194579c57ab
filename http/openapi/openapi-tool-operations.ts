import type { Tool } from '../../tools/define-tool.ts'
import type { OpenApiDocument, OpenApiOperation } from './openapi-document-types.ts'
import {
  openApiJsonContent,
  openApiSchemaComponentRef,
  toOpenApiComponentName,
} from './openapi-document-types.ts'
import {
  describeToolPrice,
  toToolPaymentInfo,
  type PaymentOfferSource,
} from './openapi-payment-info.ts'
import {
  openApiReplyOrQuoteContent,
  toolCallExamples,
  toToolOpenApiComponentNames,
  toToolOpenApiSchemas,
} from './openapi-tool-schemas.ts'

/** Types the operations that call tools, and adds one operation for each tool. */

const GENERIC_CALL_PATH = '/api/t/{slug}'

/** Operations that call one tool at an address of their own. */
const TOOL_OF_OPERATION: Readonly<Record<string, string>> = {
  checkClaims: 'hallucination_pill',
  runCrew: 'crew',
  readHive: 'hive_read',
  writeHive: 'hive_write',
  publishStrategy: 'strategy_publish',
  forkStrategy: 'strategy_fork',
  writeVault: 'vault_write',
  queryVault: 'vault_query',
  compressVault: 'vault_compress',
  dreamVault: 'vault_dream',
  shareMemory: 'vault_share',
  installPack: 'pack_install',
}

/** Replaces the open schemas of calls by those of the catalogue. */
export function addToolSchemasToCallOperations(
  document: OpenApiDocument,
  tools: readonly Tool[],
  paying: PaymentOfferSource,
): void {
  const listed = tools.filter(({ unlisted }) => unlisted !== true)
  Object.assign(document.components.schemas, toToolOpenApiSchemas(tools))
  typeGenericCalls(document, tools, listed)
  const bySlug = new Map(tools.map((tool) => [tool.slug, tool]))
  for (const item of Object.values(document.paths))
    for (const operation of Object.values(item)) {
      const tool = bySlug.get(TOOL_OF_OPERATION[operation.operationId] ?? '')
      if (tool !== undefined) typeOperationOfTool(document, operation, tool)
    }
  const generic = document.paths[GENERIC_CALL_PATH]?.['post']
  if (generic === undefined) return
  for (const tool of listed)
    document.paths[`/api/t/${tool.slug}`] = { post: operationOf(tool, generic, paying) }
}

function typeGenericCalls(
  document: OpenApiDocument,
  tools: readonly Tool[],
  listed: readonly Tool[],
): void {
  const call = openApiSchemaComponentRef('ToolCall')
  const examples = toolCallExamples(listed)
  const bodies: Readonly<Record<string, object>> = {
    '/api/refuel': call,
    '/api/quote': call,
    '/api/refuel/stream': { anyOf: [call, openApiSchemaComponentRef('PipelineStreamCall')] },
  }
  for (const [path, schema] of Object.entries(bodies)) {
    const operation = document.paths[path]?.['post']
    if (operation === undefined) continue
    const shown = path === '/api/refuel' ? { examples } : { example: EXAMPLE_CALL }
    operation.requestBody = {
      required: true,
      content: { 'application/json': { schema: schema as never, ...shown } },
    }
  }
  setSuccess(document.paths['/api/refuel']?.['post'], openApiReplyOrQuoteContent('ToolReply'))
  setSuccess(document.paths[GENERIC_CALL_PATH]?.['post'], openApiReplyOrQuoteContent('ToolReply'))
  const batch = document.paths['/api/pipeline']?.['post']
  setSuccess(batch, openApiJsonContent(openApiSchemaComponentRef('PipelineReply')))
  if (batch !== undefined)
    batch.requestBody = {
      required: true,
      content: {
        'application/json': {
          schema: {
            type: 'object',
            required: ['calls'],
            properties: { calls: openApiSchemaComponentRef('PipelineCalls') },
            additionalProperties: false,
          },
          example: { calls: [EXAMPLE_CALL] },
        },
      },
    }
  // A slug of any tool, also of those without an operation of their own.
  const generic = document.paths[GENERIC_CALL_PATH]?.['post']
  const slug = generic?.parameters?.find((one) => 'name' in one && one.name === 'slug')
  if (slug !== undefined && 'name' in slug) {
    slug.description = 'The slug of a tool, with underscores or dashes.'
    slug.example = tools[0]?.slug
  }
  const fields = generic?.requestBody?.content['application/json']
  if (fields !== undefined) fields.example = tools[0]?.examples[0]
}

const EXAMPLE_CALL = { tool: 'price_feed', query: 'BTC' }

function setSuccess(
  operation: OpenApiOperation | undefined,
  content: object,
  status?: string,
): void {
  if (operation === undefined) return
  const at = status ?? (operation.responses['201'] === undefined ? '200' : '201')
  const answer = operation.responses[at]
  if (answer !== undefined && !('$ref' in answer)) answer.content = content as never
}

/** Types a route that calls one tool; its body is that of the tool unless it has fields of its own. */
function typeOperationOfTool(
  { components }: OpenApiDocument,
  operation: OpenApiOperation,
  tool: Tool,
): void {
  const { input, reply } = toToolOpenApiComponentNames(tool.slug)
  const body = operation.requestBody?.content['application/json']
  const [example] = tool.examples
  // The body has a name already.
  const named = components.schemas[String(body?.schema?.['$ref']).replace(/^.*\//, '')]
  if (body !== undefined && takesAnything(named ?? body.schema)) {
    body.schema = openApiSchemaComponentRef(input)
    body.example = example
  }
  const dry = operation.operationId === 'runCrew'
  setSuccess(
    operation,
    dry ? openApiReplyOrQuoteContent(reply) : openApiJsonContent(openApiSchemaComponentRef(reply)),
  )
}

/** Whether a body schema names no field but `dry_run` and the `tool` that is written differently here. */
function takesAnything(schema: object | undefined): boolean {
  const text = JSON.stringify(schema ?? {})
  return text.includes('"additionalProperties":true')
}

function operationOf(
  tool: Tool,
  generic: OpenApiOperation,
  paying: PaymentOfferSource,
): OpenApiOperation {
  const { input, reply } = toToolOpenApiComponentNames(tool.slug)
  const { '200': success, ...refusals } = generic.responses
  const payment = toToolPaymentInfo(tool, paying)
  const keyed = tool.keyRequired === true || (payment === null && tool.access === 'free_with_key')
  return {
    operationId: `call${toOpenApiComponentName(tool.slug)}`,
    summary: tool.name,
    description: `${tool.description} ${describeToolPrice(tool)}`,
    tags: [...generic.tags],
    security: keyed ? (generic.security ?? []).slice(1) : (generic.security ?? []),
    parameters: (generic.parameters ?? []).filter((one) => !('name' in one) || one.name !== 'slug'),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: openApiSchemaComponentRef(input),
          example: tool.examples[0],
        },
      },
    },
    responses: {
      '200': { ...(success as object), content: openApiReplyOrQuoteContent(reply) } as never,
      ...refusals,
    },
    ...(payment === null ? {} : { 'x-payment-info': payment }),
    'x-tool': { slug: tool.slug, category: tool.category },
  }
}
