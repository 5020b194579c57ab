import { SECOND, type Clock } from '../../core/clock.ts'
import type { Tool } from '../../tools/define-tool.ts'
import type { ToolCatalogue } from '../../tools/tool-catalogue.ts'
import type { CatalogueEntry } from '../../tools/tool-ports.ts'
import { selectToolsForModels } from '../../tools/tools-shown-to-models.ts'

/** The tools as MCP lists them, and the tool that an MCP name means. */

/** Tools about this station. Among the tools of other servers a model needs the name of the service. */
const DISCOVERY_SLUGS: readonly string[] = [
  'get_latest_gas_station',
  'discover_new_tools',
  'ping_for_updates',
]
const DISCOVERY_PREFIX = 'gas_'
const LIST_TTL_MS = 5 * SECOND

/** What an endpoint offers. */
export interface McpEndpointToolSelection {
  /** Only the free tools that tell about this station. */
  readonly discoveryOnly: boolean
  /** Also tools that others built and nobody has verified. */
  readonly community: boolean
}

const toMcpName = (slug: string): string =>
  DISCOVERY_SLUGS.includes(slug) ? `${DISCOVERY_PREFIX}${slug}` : slug

/** Finds the tool of an MCP name; undefined where the endpoint does not offer it. */
export function findMcpTool(
  catalogue: Pick<ToolCatalogue, 'find' | 'toEntry'>,
  name: string,
  scope: McpEndpointToolSelection,
): Tool | undefined {
  const bare = name.startsWith(DISCOVERY_PREFIX) ? name.slice(DISCOVERY_PREFIX.length) : name
  const tool = catalogue.find(DISCOVERY_SLUGS.includes(bare) ? bare : name)
  if (tool === undefined) return undefined
  if (scope.discoveryOnly && !DISCOVERY_SLUGS.includes(tool.slug)) return undefined
  return selectToolsForModels([catalogue.toEntry(tool)], scope).length === 0 ? undefined : tool
}

/** Returns a function that lists the tools as JSON text, computed at most every five seconds. */
export function createMcpToolLister(
  catalogue: Pick<ToolCatalogue, 'entries' | 'find'>,
  clock: Pick<Clock, 'mono'>,
): (scope: McpEndpointToolSelection) => string {
  const lists = new Map<string, { readonly text: string; readonly until: number }>()
  return (scope) => {
    const key = `${scope.discoveryOnly} ${scope.community}`
    const known = lists.get(key)
    if (known !== undefined && known.until > clock.mono()) return known.text
    const text = JSON.stringify(listMcpTools(catalogue, scope))
    lists.set(key, { text, until: clock.mono() + LIST_TTL_MS })
    return text
  }
}

function listMcpTools(
  catalogue: Pick<ToolCatalogue, 'entries' | 'find'>,
  scope: McpEndpointToolSelection,
): object[] {
  return selectToolsForModels(catalogue.entries(), scope)
    .filter(({ slug }) => !scope.discoveryOnly || DISCOVERY_SLUGS.includes(slug))
    .map((entry) => toMcpTool(entry, catalogue.find(entry.slug)))
}

/** The tool as `tools/list` has it; `tool` is absent for tools of other agents. */
export function toMcpTool(entry: CatalogueEntry, tool: Tool | undefined) {
  const { slug, name, output_schema: output, access, price_usdc: price } = entry
  const varies = typeof tool?.price === 'function'
  return {
    name: toMcpName(slug),
    title: name,
    description: `${entry.description} ${describePrice(entry, varies)}`,
    inputSchema: entry.input_schema,
    // The protocol requires an object at its root.
    ...(isObjectSchema(output) ? { outputSchema: output } : {}),
    annotations: {
      title: name,
      readOnlyHint: tool?.effect === 'none' && !entry.acts_on_others,
      destructiveHint: entry.acts_on_others,
      openWorldHint: tool?.effect === 'external' || !CLOSED_CATEGORIES.has(entry.category),
    },
    _meta: {
      'gas/price_usdc': price,
      'gas/price_varies': varies,
      'gas/access': access,
      'gas/key_required': entry.key_required,
      'gas/free_tier': entry.free_tier,
    },
  }
}

/** Their tools read and write only what this station stores or computes. */
const CLOSED_CATEGORIES = new Set(['memory', 'compute'])

const isObjectSchema = (schema: unknown): boolean =>
  typeof schema === 'object' && schema !== null && 'type' in schema && schema.type === 'object'

function describePrice(
  { access, price_usdc: price, free_tier: free, key_required: keyed, availability }: CatalogueEntry,
  varies: boolean,
): string {
  const { calls_per_day: daily = null, overage_price_usdc: overage = null } = free ?? {}
  const sentences = [
    ...(access === 'paid' ? [`Costs ${varies ? 'about ' : ''}${price} USDC a call.`] : []),
    ...(access === 'free' && daily === null ? ['Free.'] : []),
    ...(access === 'free' && daily !== null
      ? [
          `Free for ${daily} calls a day${overage === null ? '.' : `, then ${overage} USDC a call.`}`,
        ]
      : []),
    ...(access === 'free_with_key'
      ? [`Free with an API key${overage === null ? '.' : `; without one ${overage} USDC a call.`}`]
      : []),
    ...(keyed ? ['Needs an API key.'] : []),
    ...(availability.available ? [] : ['Not available on this station now.']),
  ]
  return sentences.join(' ')
}
