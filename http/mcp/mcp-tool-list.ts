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
  /** Only these; null for all. */
  readonly slugs: ReadonlySet<string> | null
  readonly categories: ReadonlySet<string> | null
}

const toMcpName = (slug: string): string =>
  DISCOVERY_SLUGS.includes(slug) ? `${DISCOVERY_PREFIX}${slug}` : slug

/** The slug that an MCP name stands for. */
export function toToolSlug(name: string): string {
  const bare = name.startsWith(DISCOVERY_PREFIX) ? name.slice(DISCOVERY_PREFIX.length) : name
  return DISCOVERY_SLUGS.includes(bare) ? bare : name
}

const isSelected = (
  { slug, category }: Pick<Tool, 'slug'> & { readonly category: string },
  { discoveryOnly, slugs, categories }: McpEndpointToolSelection,
): boolean =>
  (!discoveryOnly || DISCOVERY_SLUGS.includes(slug)) &&
  (slugs === null || slugs.has(slug)) &&
  (categories === null || categories.has(category))

/** Finds the tool of an MCP name; undefined where the endpoint does not offer it. */
export function findMcpTool(
  catalogue: Pick<ToolCatalogue, 'find' | 'toEntry'>,
  name: string,
  scope: McpEndpointToolSelection,
): Tool | undefined {
  const tool = catalogue.find(toToolSlug(name))
  if (tool === undefined || !isSelected(tool, scope)) return undefined
  return selectToolsForModels([catalogue.toEntry(tool)], scope).length === 0 ? undefined : tool
}

/** A tool of the list, as JSON text. */
interface ListedMcpTool extends Pick<CatalogueEntry, 'slug' | 'category'> {
  readonly text: string
}

/** Returns a function that lists the tools as JSON text; each is rendered at most every five seconds. */
export function createMcpToolLister(
  catalogue: Pick<ToolCatalogue, 'entries' | 'find'>,
  clock: Pick<Clock, 'mono'>,
): (scope: McpEndpointToolSelection, permits: ((slug: string) => boolean) | null) => string {
  const lists = new Map<boolean, { readonly tools: ListedMcpTool[]; readonly until: number }>()
  const listed = (community: boolean): ListedMcpTool[] => {
    const known = lists.get(community)
    if (known !== undefined && known.until > clock.mono()) return known.tools
    const tools = selectToolsForModels(catalogue.entries(), { community }).map((entry) => {
      const { slug, category } = entry
      return { slug, category, text: JSON.stringify(toMcpTool(entry, catalogue.find(slug))) }
    })
    lists.set(community, { tools, until: clock.mono() + LIST_TTL_MS })
    return tools
  }
  return (scope, permits) => {
    const shown = listed(scope.community).filter(
      (tool) => isSelected(tool, scope) && (permits === null || permits(tool.slug)),
    )
    return `[${shown.map(({ text }) => text).join(',')}]`
  }
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
    ...(availability.reason === undefined ? [] : [availability.reason]),
  ]
  return sentences.join(' ')
}
