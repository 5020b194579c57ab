import { LIMITS } from '../../core/limits.ts'
import { describedInputSchemaOf } from '../../tools/default-tool-field-descriptions.ts'
import type { Tool } from '../../tools/define-tool.ts'
import {
  openApiJsonContent,
  openApiSchemaComponentRef,
  toOpenApiComponentName,
} from './openapi-document-types.ts'
import type { JsonSchema, OpenApiMediaType } from './openapi-document-types.ts'
import { describeToolPrice } from './openapi-payment-info.ts'

/** Components of the catalogue: the call, the input and the reply of each tool, from its own schemas. */

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: unknown
}

const DRY_RUN = { dry_run: openApiSchemaComponentRef('DryRun') }

/** Fields that every reply has beside the output of its tool. */
export const SHARED_TOOL_REPLY_FIELDS = {
  echo_recycled: {
    type: 'boolean',
    description: 'This paid call was counted in public trending.',
  },
  ghost_protocol: openApiSchemaComponentRef('GhostProtocol'),
  hive: openApiSchemaComponentRef('HiveExcerpts'),
  _meta: openApiSchemaComponentRef('CallMeta'),
}

/** Components that do not depend on the catalogue. */
const SHARED_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  DryRun: {
    type: 'boolean',
    description: 'Return a quote without running the tool.',
  },
  MoreToolFields: {
    type: 'object',
    additionalProperties: true,
    description: 'More fields of the tool; a field beside `tool` takes precedence over one here.',
  },
  GhostProtocol: {
    type: 'object',
    description: 'Whether `X-Ghost-Mode` made the call private: excluded from public statistics.',
    required: ['active', 'mode', 'note'],
    properties: {
      active: { type: 'boolean' },
      mode: { enum: ['stealth', 'observe', null] },
      note: { type: 'string' },
    },
  },
  HiveExcerpts: {
    type: 'object',
    description: 'Public entries on the same subject; absent without a match.',
    required: ['entries'],
    properties: {
      entries: { type: 'array', items: { type: 'object', additionalProperties: true } },
    },
  },
  CallMeta: {
    type: 'object',
    description: 'What the call cost, who answered it, and its receipt.',
    required: ['call_id', 'cost_usdc', 'balance_usdc', 'rail', 'provider', 'mode', 'ms', 'receipt'],
    properties: {
      call_id: { type: 'string', format: 'uuid' },
      cost_usdc: {
        type: 'number',
        description:
          'What was charged for it; on the rail `pass` the list price, which limits count.',
      },
      balance_usdc: {
        type: ['number', 'null'],
        description: 'The credits of the agent afterwards; null without a key.',
      },
      rail: {
        type: 'string',
        description: 'How it was paid: `free`, `credits`, `pass`, `x402`, …',
      },
      provider: { type: ['string', 'null'], description: 'The upstream provider that answered.' },
      mode: {
        type: ['string', 'null'],
        description:
          '`native` or `community`; with a provider `live`, `cache`, `fixture` or `degraded`.',
      },
      ms: { type: 'integer', description: 'How long the tool ran.' },
      receipt: { type: 'string', description: 'A token for `GET /api/receipts/{receipt}`.' },
      cached: {
        type: 'boolean',
        description: '`true` where an earlier answer of the provider was given again.',
      },
      waived: { type: 'string', description: 'Why a call that would cost something cost nothing.' },
      pass: {
        type: 'object',
        description: 'The task pass that has paid, with the calls that it still pays.',
        additionalProperties: true,
      },
      settlement_url: { type: 'string', description: 'Where to ask for the outcome of a payment.' },
      payment_response: {
        type: 'string',
        description: 'In a stream: the value of the header PAYMENT-RESPONSE.',
      },
      x_payment_response: {
        type: 'string',
        description: 'In a stream: the value of the header X-PAYMENT-RESPONSE.',
      },
    },
  },
  PipelineCalls: {
    type: 'array',
    minItems: 1,
    maxItems: LIMITS.pipelineCalls,
    description: 'The calls of a batch; they run in parallel.',
    items: openApiSchemaComponentRef('ToolCall'),
  },
  PipelineStreamCall: {
    type: 'object',
    description: 'A batch whose answers are streamed.',
    required: ['tool', 'calls'],
    properties: { tool: { const: 'pipeline' }, calls: openApiSchemaComponentRef('PipelineCalls') },
  },
  PipelineReply: {
    type: 'object',
    required: ['ok', 'results', 'total_cost_usdc', 'total_ms', 'parallel', 'succeeded', 'failed'],
    properties: {
      ok: { type: 'boolean', description: 'Whether every call succeeded.' },
      results: {
        type: 'array',
        description: 'In the order of the calls.',
        items: {
          type: 'object',
          required: ['tool', 'ok', 'result', 'cost_usdc', 'ms'],
          properties: {
            tool: { type: 'string' },
            ok: { type: 'boolean' },
            result: { anyOf: [openApiSchemaComponentRef('ToolReply'), { type: 'null' }] },
            cost_usdc: { type: 'number' },
            ms: { type: 'integer' },
            error: openApiSchemaComponentRef('Problem'),
          },
        },
      },
      total_cost_usdc: { type: 'number' },
      total_ms: { type: 'integer' },
      parallel: { const: true },
      succeeded: { type: 'integer' },
      failed: { type: 'integer' },
    },
  },
}

export const toToolOpenApiComponentNames = (slug: string) => ({
  input: `${toOpenApiComponentName(slug)}Input`,
  call: `${toOpenApiComponentName(slug)}Call`,
  reply: `${toOpenApiComponentName(slug)}Reply`,
})

/** Returns the components of all tools, and `ToolCall` and `ToolReply`, their unions. */
export function toToolOpenApiSchemas(tools: readonly Tool[]): Record<string, JsonSchema> {
  const schemas: Record<string, JsonSchema> = { ...SHARED_SCHEMAS }
  const mapping: Record<string, string> = {}
  const calls: JsonSchema[] = []
  const replies: JsonSchema[] = []
  for (const tool of tools) {
    const names = toToolOpenApiComponentNames(tool.slug)
    const input = plain(describedInputSchemaOf(tool)) as ObjectSchema
    const output = plain(tool.output) as ObjectSchema
    const fields = mapValues(input.properties ?? {}, withDefaultInWords)
    const required = input.required ?? []
    schemas[names.input] = {
      type: 'object',
      description: `The fields of ${tool.slug}.`,
      properties: { ...fields, ...DRY_RUN },
      ...(required.length === 0 ? {} : { required }),
      additionalProperties: false,
    }
    schemas[names.call] = {
      type: 'object',
      description: `${tool.description} ${describeToolPrice(tool)}`,
      required: ['tool', ...required],
      properties: {
        tool: { type: 'string', const: tool.slug, description: 'The tool.' },
        ...fields,
        params: openApiSchemaComponentRef('MoreToolFields'),
        ...DRY_RUN,
      },
      additionalProperties: false,
    }
    schemas[names.reply] = {
      ...output,
      description: `What ${tool.slug} returns.`,
      properties: { ...output.properties, ...SHARED_TOOL_REPLY_FIELDS },
      required: [...(output.required ?? []), 'echo_recycled', 'ghost_protocol', '_meta'],
    }
    mapping[tool.slug] = openApiSchemaComponentRef(names.call).$ref
    calls.push(openApiSchemaComponentRef(names.call))
    replies.push(openApiSchemaComponentRef(names.reply))
  }
  schemas['ToolCall'] = {
    description:
      'A call of a tool: its slug as `tool`, and its fields beside it. Fields may be below `params` too.',
    oneOf: calls,
    discriminator: { propertyName: 'tool', mapping },
  }
  schemas['ToolReply'] = { description: 'The reply of any tool.', anyOf: replies }
  return schemas
}

/** Examples of calls: the first one of each tool. */
export const toolCallExamples = (
  tools: readonly Tool[],
): NonNullable<OpenApiMediaType['examples']> =>
  Object.fromEntries(
    tools.map(({ slug, name, examples }) => [
      slug,
      { summary: name, value: { tool: slug, ...(examples[0] as object) } },
    ]),
  )

/** The content of a success: the reply, or the quote of a dry run. */
export const openApiReplyOrQuoteContent = (reply: string): Record<string, OpenApiMediaType> =>
  openApiJsonContent({
    anyOf: [openApiSchemaComponentRef(reply), openApiSchemaComponentRef('QuoteResponse')],
  })

/** The schema as JSON says it: TypeBox marks its schemas with hidden members. */
const plain = (schema: unknown): JsonSchema => JSON.parse(JSON.stringify(schema)) as JsonSchema

const mapValues = (
  fields: Readonly<Record<string, JsonSchema>>,
  change: (field: JsonSchema) => JsonSchema,
): Record<string, JsonSchema> =>
  Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, change(field)]))

/** A field with a default is optional, but code generators take it for required. */
function withDefaultInWords({ default: value, ...field }: JsonSchema): JsonSchema {
  if (value === undefined) return field
  const said = typeof field['description'] === 'string' ? `${field['description']} ` : ''
  return { ...field, description: `${said}Default: ${JSON.stringify(value)}.` }
}
