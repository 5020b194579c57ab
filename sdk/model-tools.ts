import type { GasStation } from './gas-station-client.ts'
import type { ListedTool } from './tool-call-types.ts'

/** Chooses and describes the tools that a model gets; shared by all adapters. */

export interface ModelToolSelection {
  /** Slugs; all available tools without it. */
  readonly only?: readonly string[]
  /** Also tools that affect other people, sites or chains irreversibly: ask a person first. */
  readonly actsOnOthers?: boolean
  /** Also tools of strangers, whose descriptions the model reads. */
  readonly community?: boolean
}

/** A longer description says nothing more to a model. */
const MAX_DESCRIPTION_CHARS = 500

/** Returns the chosen tools that the station can run now. */
export async function listToolsForModel(
  gas: GasStation,
  { only, actsOnOthers = false, community = false }: ModelToolSelection,
): Promise<readonly ListedTool[]> {
  const listed = (await gas.catalogue()).filter(
    (tool) =>
      tool.availability.available &&
      (only === undefined || only.includes(tool.slug)) &&
      (community || tool.type === 'native') &&
      (actsOnOthers || !tool.acts_on_others),
  )
  const missing = (only ?? []).filter((slug) => !listed.some((tool) => tool.slug === slug))
  if (missing.length > 0)
    throw new RangeError(
      `not available here: ${missing.join(', ')} (tools that act on others need actsOnOthers, tools of strangers community)`,
    )
  return listed.some(({ type }) => type === 'community') ? withMarkedTexts(gas, listed) : listed
}

interface MarkedTool {
  readonly name: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
}

/** The texts of strangers as the station shows them to models: checked, short, and with their builder. */
async function withMarkedTexts(
  gas: GasStation,
  listed: readonly ListedTool[],
): Promise<readonly ListedTool[]> {
  const first = '/api/tools?format=mcp&community=1'
  const bySlug = new Map<string, MarkedTool>()
  for (let path: string | null = first; path !== null;) {
    const page: { tools: readonly MarkedTool[]; nextCursor?: string } = await gas.request(
      'GET',
      path,
    )
    for (const tool of page.tools) bySlug.set(tool.name, tool)
    path = page.nextCursor === undefined ? null : `${first}&cursor=${page.nextCursor}`
  }
  return listed.flatMap((tool): ListedTool[] => {
    if (tool.type === 'native') return [tool]
    const marked = bySlug.get(tool.slug)
    // The station does not show it to models.
    if (marked === undefined) return []
    return [{ ...tool, description: marked.description, input_schema: marked.inputSchema }]
  })
}

/** The description with the price, so that a model can weigh it. */
export const describeForModel = ({ type, description, price_usdc: price }: ListedTool): string =>
  // The station has shortened it and said the price.
  type === 'community'
    ? description
    : `${description.slice(0, MAX_DESCRIPTION_CHARS)} Costs ${price === 0 ? 'nothing' : `${price} USDC a call`}.`
