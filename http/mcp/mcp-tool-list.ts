import { SECOND, type Clock } from '../../core/clock.ts'
import {
  DEFAULT_COMMUNITY_TOOLS,
  PAGE_SCHEMA_CHARS,
  type CommunityToolPage,
} from '../../tools/community/page.ts'
import type { Tool } from '../../tools/define-tool.ts'
import { isVerifiedTool, type ToolCatalogue } from '../../tools/tool-catalogue.ts'
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

/** A page of tools as JSON text, and the cursor of the next one. */
export interface McpToolPage {
  readonly text: string
  readonly nextCursor: string | null
}

/** Returns a function that lists the tools as JSON text; each is rendered at most every five seconds. */
export function createMcpToolLister(
  catalogue: Pick<ToolCatalogue, 'page' | 'find' | 'toEntry'>,
  clock: Pick<Clock, 'mono'>,
): (
  scope: McpEndpointToolSelection,
  permits: ((slug: string) => boolean) | null,
  cursor: string | null,
) => McpToolPage {
  const texts = new Map<string, string>()
  let until = -Infinity
  const textOf = (tool: Tool): string => {
    const known = texts.get(tool.slug)
    if (known !== undefined) return known
    const [entry] = selectToolsForModels([catalogue.toEntry(tool)], { community: true })
    const text = entry === undefined ? '' : JSON.stringify(toMcpTool(entry, tool))
    texts.set(tool.slug, text)
    return text
  }
  return (scope, permits, cursor) => {
    if (until <= clock.mono()) {
      texts.clear()
      until = clock.mono() + LIST_TTL_MS
    }
    const shown = (tool: Tool) =>
      isSelected(tool, scope) &&
      (scope.community || isVerifiedTool(tool)) &&
      (permits === null || permits(tool.slug))
    const { tools, next } = catalogue.page(shown, modelPageAfter(cursor))
    const listed = tools.map(textOf).filter((text) => text !== '')
    return { text: `[${listed.join(',')}]`, nextCursor: toToolCursor(next) }
  }
}

/** A page for models; throws for what `isToolCursor` refuses. */
export const modelPageAfter = (cursor: string | null): CommunityToolPage => ({
  after: cursor === null ? null : fromToolCursor(cursor),
  limit: DEFAULT_COMMUNITY_TOOLS,
  schemaChars: PAGE_SCHEMA_CHARS,
})

/** Cursors are opaque; they name the last tool of a page. */
export const toToolCursor = (slug: string | null): string | null =>
  slug === null ? null : Buffer.from(slug).toString('base64url')
const fromToolCursor = (cursor: string): string => Buffer.from(cursor, 'base64url').toString()
export const isToolCursor = (cursor: string): boolean =>
  cursor.length <= 128 && /^[a-z0-9-]{1,64}$/.test(fromToolCursor(cursor))

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
