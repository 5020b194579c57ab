import type { CatalogueEntry } from '../../../tools/tool-ports.ts'
import { isStrictSchema, toGeminiSchema } from './llm-json-schema-dialects.ts'

/** The catalogue as the APIs of language models take tools (decision 206). */

export const MODEL_API_TOOL_FORMATS = ['openai', 'anthropic', 'mcp', 'gemini'] as const
export type ModelApiToolFormat = (typeof MODEL_API_TOOL_FORMATS)[number]

/** The longest description that every one of these APIs takes. */
const MAX_DESCRIPTION_CHARS = 1_024

interface ModelTool {
  readonly name: string
  readonly description: string
  readonly schema: Readonly<Record<string, unknown>>
}

/** The value of `tools` in a request to a model; every name is a slug, the `tool` of `POST /api/refuel`. */
export function toModelTools(
  format: Exclude<ModelApiToolFormat, 'mcp'>,
  entries: readonly CatalogueEntry[],
): readonly object[] {
  const tools = entries.map(toModelTool)
  switch (format) {
    case 'openai':
      return tools.map(toOpenAiTool)
    case 'anthropic':
      return tools.map(({ name, description, schema }) => ({
        name,
        description,
        input_schema: schema,
      }))
    case 'gemini':
      return [{ functionDeclarations: tools.map(toGeminiDeclaration) }]
  }
}

function toModelTool(entry: CatalogueEntry): ModelTool {
  const { slug, description, input_schema: input } = entry
  return {
    name: slug,
    description: `${description} ${describeListPrice(entry)}`.slice(0, MAX_DESCRIPTION_CHARS),
    schema: input as Record<string, unknown>,
  }
}

/** `strict` only where the schema says everything that strict schemas must: else optional fields become null. */
function toOpenAiTool({ name, description, schema }: ModelTool) {
  const strict = isStrictSchema(schema)
  return { type: 'function', function: { name, description, parameters: schema, strict } }
}

/** A function without fields has no parameters: the API refuses an object without properties. */
function toGeminiDeclaration({ name, description, schema }: ModelTool) {
  const { properties = {} } = schema as { properties?: object }
  const parameters =
    Object.keys(properties).length === 0 ? {} : { parameters: toGeminiSchema(schema) }
  return { name, description, ...parameters }
}

function describeListPrice({ access, price_usdc: price, free_tier: free }: CatalogueEntry): string {
  const { calls_per_day: daily = null, overage_price_usdc: overage = null } = free ?? {}
  if (access === 'paid') return `Costs ${price} USDC a call.`
  if (access === 'free_with_key') return 'Free with an API key.'
  if (daily === null) return 'Free.'
  return `Free for ${daily} calls a day${overage === null ? '.' : `, then ${overage} USDC a call.`}`
}
