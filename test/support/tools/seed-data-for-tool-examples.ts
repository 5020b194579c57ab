/** Sends a request with an agent's key; throws unless it succeeds. */
export type PostWithAgentKey = (
  key: string | null,
  path: string,
  json: object,
) => Promise<ExampleJson>
export type ExampleJson = Readonly<Record<string, unknown>>

export interface ExampleAgentCredentials {
  readonly id: string
  readonly key: string
}

/** Replaces the ids and websites of an example with those of the test. */
export type ReplaceExampleIds = (example: ExampleJson) => ExampleJson

/** Ids in the examples of the catalogue. */
const EXAMPLE_IDS = {
  agent: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d',
  entry: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4e',
  strategy: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4f',
  memory: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c50',
  recipient: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c51',
} as const

/** Hive entries of other agents on the fees that the examples query. */
const HIVE_ENTRY_TEXTS = [
  'Gas on Base is cheaper on weekends, by about forty percent in our log of November.',
  'Base gas fees will fall further once blobs are doubled; we plan with half of the cost.',
  'Gas on Base is cheaper on weekends than on weekdays, as our hourly samples show.',
  'Base gas fees will fall when the next upgrade raises the gas target of the chain.',
  'Gas on Base is not cheaper on weekends when a popular mint runs on a Sunday.',
  'Base gas fees will fall in the evening hours UTC and rise again with the Asian morning.',
  'Base gas fees will fall only slowly, since demand grows as fast as the room for it.',
]
const VAULT_MEMORY_TEXTS = [
  'The staging API allows twenty requests a second before it refuses.',
  'The staging API answers with 429 and a retry-after header once its limit is reached.',
  'Deployments of staging run at noon and take about four minutes.',
  'Deployments of staging need a green build of the main branch.',
  'The team of the platform keeps the limits of the staging API in its handbook.',
]

/**
 * Creates the data that the examples assume, through the public API: entries, another agent's
 * strategy, memories.
 */
export async function seedDataForCatalogueExamples(
  act: PostWithAgentKey,
  self: ExampleAgentCredentials,
  site: string,
): Promise<ReplaceExampleIds> {
  const { agent_id: id, api_key } = await act(null, '/api/onboard', { name: 'neighbour' })
  const other = await act(null, '/api/onboard', { name: 'neighbour-2' })
  const key = String(api_key)
  const tool = (by: string, slug: string, fields: object) =>
    act(by, '/api/refuel', { tool: slug, ...fields })
  for (const [at, content] of HIVE_ENTRY_TEXTS.entries()) {
    const by = at % 2 === 0 ? key : String(other['api_key'])
    await tool(by, 'hive_write', { content, namespace: 'base' })
  }
  const strategy = await tool(key, 'strategy_publish', {
    title: 'Weekend batcher',
    description: 'Collects transfers during the week and sends them on Sunday mornings UTC.',
    strategy_tool: 'price_feed',
    chain: 'base',
  })
  const entry = await tool(self.key, 'hive_write', {
    content: 'Flashblocks make a swap on Base feel instant, yet only the block makes it final.',
    namespace: 'base',
  })
  for (const content of VAULT_MEMORY_TEXTS)
    await tool(self.key, 'vault_write', { content, type: 'fact' })
  // An immortal memory survives consolidation.
  const kept = await tool(self.key, 'vault_write', {
    content: 'Batches of transfers on Base are cheapest on Sunday mornings UTC.',
    type: 'insight',
    immortal: true,
  })
  return createTranslator(
    {
      [EXAMPLE_IDS.agent]: id,
      [EXAMPLE_IDS.recipient]: id,
      [EXAMPLE_IDS.entry]: entry['id'],
      [EXAMPLE_IDS.strategy]: strategy['id'],
      [EXAMPLE_IDS.memory]: (kept['pack'] as ExampleJson)['id'],
    },
    site,
  )
}

const WEBSITE_URL = /https?:\/\/(?!127\.)[\w.-]+(?::\d+)?/g

function createTranslator(ids: Readonly<Record<string, unknown>>, site: string): ReplaceExampleIds {
  const word = (text: string) => ids[text] ?? text.replace(WEBSITE_URL, site)
  const value = (one: unknown): unknown =>
    typeof one === 'string'
      ? word(one)
      : Array.isArray(one)
        ? one.map(value)
        : typeof one === 'object' && one !== null
          ? Object.fromEntries(Object.entries(one).map(([name, part]) => [name, value(part)]))
          : one
  return (example) => value(example) as ExampleJson
}
