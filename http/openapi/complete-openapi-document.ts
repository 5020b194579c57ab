import { toPortablePattern } from '../../core/validation/portable-pattern.ts'
import type { Tool } from '../../tools/define-tool.ts'
import { OPENAPI_TAGS } from './openapi-tags.ts'
import type { JsonSchema, OpenApiDocument, OpenApiOperation } from './openapi-document-types.ts'
import {
  openApiJsonContent,
  openApiSchemaComponentRef,
  toOpenApiComponentName,
} from './openapi-document-types.ts'
import type { PaymentOfferSource } from './openapi-payment-info.ts'
import {
  describeOpenApiParameters,
  describeOpenApiRequestFields,
} from './openapi-field-descriptions.ts'
import { addOpenApiAnswerExamples } from './openapi-answer-examples.ts'
import { describeOpenApiMcpOperations } from './openapi-mcp-operations.ts'
import { addOpenApiRequestExamples } from './openapi-request-examples.ts'
import {
  addSharedResponses,
  OPENAPI_SHARED_HEADERS,
  OPENAPI_SHARED_RESPONSES,
  PAYMENT_REQUIRED_SCHEMA,
  moveRequestHeadersToOpenApiComponents,
  type DocumentedRoute,
} from './openapi-shared-responses.ts'
import { addToolSchemasToCallOperations } from './openapi-tool-operations.ts'
import { openApiWebhookOperations, webhookEventBodySchemas } from './openapi-webhook-events.ts'

/**
 * Completes the document that the routes describe: the catalogue, named bodies and answers, shared refusals
 * and headers, and webhooks (decision 205).
 */

export interface CompleteOpenApiDocumentInput {
  /** The document of the routes; it stays as it is. */
  readonly generated: object
  /** By operation id. */
  readonly routes: ReadonlyMap<string, DocumentedRoute>
  readonly tools: readonly Tool[]
  readonly paying: PaymentOfferSource
  readonly publicUrl: string
}

export function completeOpenApiDocument(input: CompleteOpenApiDocumentInput): OpenApiDocument {
  const { generated, routes, tools, paying, publicUrl } = input
  const document = structuredClone(generated) as OpenApiDocument
  const { components } = document
  document.tags = OPENAPI_TAGS.map((tag) => ({ ...tag }))
  components.responses = { ...OPENAPI_SHARED_RESPONSES }
  components.headers = { ...OPENAPI_SHARED_HEADERS }
  components.parameters = {}
  components.schemas['PaymentRequired'] = PAYMENT_REQUIRED_SCHEMA
  for (const [path, item] of Object.entries(document.paths))
    for (const operation of Object.values(item)) {
      const route = routes.get(operation.operationId)
      if (route === undefined) throw new Error(`${path} has no operation id of its own`)
      operation.description = describeOperation(operation, route)
      addSharedResponses(operation, route)
      moveRequestHeadersToOpenApiComponents(document, operation)
      describeOpenApiParameters(operation)
      nameSchemas(document, operation)
    }
  describeOpenApiMcpOperations(document)
  addToolSchemasToCallOperations(document, tools, paying)
  addOpenApiRequestExamples(document)
  typeQuotedRefusal(components.schemas)
  addModelToolFormats(document)
  Object.assign(components.schemas, webhookEventBodySchemas())
  document.webhooks = openApiWebhookOperations()
  document['x-service-info'] = {
    categories: [...new Set(tools.map(({ category }) => category))],
    docs: { homepage: `${publicUrl}/`, apiReference: `${publicUrl}/docs` },
  }
  document.paths = Object.fromEntries(
    Object.entries(document.paths).toSorted(([one], [other]) => byToolLast(one, other)),
  )
  // Of a copy: examples and schemas are those of the tools themselves.
  const finished = structuredClone(document)
  describeOpenApiRequestFields(finished)
  sharePatterns(finished)
  removeUnusedSchemas(finished)
  // Last: they are answers as they are, whatever is in them.
  addOpenApiAnswerExamples(finished)
  return finished
}

/** Operations of single tools come behind the others, which a reader needs first. */
const byToolLast = (one: string, other: string): number =>
  Number(isToolPath(one)) - Number(isToolPath(other))

const isToolPath = (path: string) => path.startsWith('/api/t/') && !path.includes('{')

const describeOperation = (
  { summary, description }: OpenApiOperation,
  { access }: DocumentedRoute,
) => `${description ?? `${summary}.`} ${access}`

/** Gives bodies and answers the name of their operation, so that generated clients have types for them. */
function nameSchemas(
  { components: { schemas } }: OpenApiDocument,
  operation: OpenApiOperation,
): void {
  const name = toOpenApiComponentName(operation.operationId)
  const hoist = (content: Record<string, { schema?: JsonSchema }> | undefined, as: string) => {
    const media = content?.['application/json']
    if (media?.schema === undefined || '$ref' in media.schema) return
    if (schemas[as] !== undefined) throw new Error(`two schemas are called ${as}`)
    schemas[as] = media.schema
    media.schema = openApiSchemaComponentRef(as)
  }
  hoist(operation.requestBody?.content, `${name}Request`)
  for (const [at, [status, response]] of Object.entries(operation.responses).entries()) {
    if ('$ref' in response) continue
    const suffix = at === 0 ? 'Response' : `Response${status}`
    hoist(response.content, `${name}${suffix}`)
  }
}

/** A quote quotes the problem as the call would answer it. */
function typeQuotedRefusal(schemas: Record<string, JsonSchema>): void {
  const quote = schemas['QuoteResponse'] as { properties?: Record<string, JsonSchema> } | undefined
  if (quote?.properties === undefined) return
  quote.properties['would_refuse'] = {
    anyOf: [openApiSchemaComponentRef('Problem'), { type: 'null' }],
    description: 'The problem that the call would return; null for none.',
  }
}

/** The catalogue in the formats of model APIs; their own documents say what each tool has. */
function addModelToolFormats({ components, paths }: OpenApiDocument): void {
  const listing = paths['/api/tools']?.['get']?.responses['200']
  if (listing === undefined || '$ref' in listing) return
  const anyObject = { type: 'object', additionalProperties: true }
  components.schemas['ModelTools'] = {
    description:
      'With `format`: what the named API takes as `tools`, or the result of tools/list of MCP.',
    anyOf: [
      { type: 'array', items: anyObject },
      {
        type: 'object',
        required: ['tools'],
        properties: { tools: { type: 'array', items: anyObject }, nextCursor: { type: 'string' } },
        additionalProperties: false,
      },
    ],
  }
  const formats = [
    openApiSchemaComponentRef('ListToolsResponse'),
    openApiSchemaComponentRef('ModelTools'),
  ]
  listing.content = openApiJsonContent({ anyOf: formats })
}

/** Writes patterns in the dialect that all languages share, and removes what it cannot say (decision 410). */
function sharePatterns(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  const schema = value as { pattern?: unknown }
  if (typeof schema.pattern === 'string') {
    const shared = toPortablePattern(schema.pattern)
    if (shared === null) delete schema.pattern
    else schema.pattern = shared
  }
  for (const inner of Object.values(value)) sharePatterns(inner)
}

const SCHEMA_REFERENCE = /"\$ref":"#\/components\/schemas\/([^"]+)"/g

/** Removes what the typed operations have replaced. */
function removeUnusedSchemas(document: OpenApiDocument): void {
  const { schemas } = document.components
  const { schemas: _schemas, ...others } = document.components
  const used = new Set<string>()
  const follow = (value: unknown) => {
    for (const [, name = ''] of JSON.stringify(value).matchAll(SCHEMA_REFERENCE)) {
      if (used.has(name)) continue
      used.add(name)
      follow(schemas[name] ?? {})
    }
  }
  follow([document.paths, document.webhooks, others])
  document.components.schemas = Object.fromEntries(
    Object.entries(schemas).filter(([name]) => used.has(name)),
  )
}
