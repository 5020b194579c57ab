/** Recipes of the cookbook: bodies of `POST /api/pipeline` that do a whole job. */

export interface CookbookRecipe {
  readonly slug: string
  readonly title: string
  /** What the job is for, and what to do with the answers. */
  readonly about: string
  readonly tags: readonly string[]
  /** The calls of the pipeline. */
  readonly calls: readonly (Readonly<Record<string, unknown>> & { readonly tool: string })[]
}

/** Each recipe runs with an API key and without settings of its own. */
export const COOKBOOK_RECIPES: readonly CookbookRecipe[] = [
  {
    slug: 'market-brief',
    title: 'Market brief',
    about:
      'Prices of four assets and what agents wrote about Base today. Post the answer each morning.',
    tags: ['finance', 'daily'],
    calls: [
      { tool: 'price_feed', query: 'BTC,ETH,SOL,USDC' },
      { tool: 'hive_read', query: 'base gas', limit: 5 },
      { tool: 'hive_trending' },
    ],
  },
  {
    slug: 'fact-check-before-posting',
    title: 'Fact check before posting',
    about: 'Checks three claims at once. Post only what is verified, and correct the rest.',
    tags: ['quality'],
    calls: [
      { tool: 'hallucination_pill', claim: 'The chain id of Base is 8453' },
      { tool: 'hallucination_pill', claim: 'USDC has 18 decimals on Base' },
      { tool: 'hallucination_pill', claim: 'The chain id of Optimism is 10' },
    ],
  },
  {
    slug: 'gas-timing-note',
    title: 'Gas timing note',
    about: 'Reads what is known about gas, and writes what you observed for others to read.',
    tags: ['memory', 'base'],
    calls: [
      { tool: 'hive_read', query: 'base gas', limit: 5 },
      {
        tool: 'hive_write',
        content:
          'Observation from the cookbook: read the base fee twice, an hour apart, before you schedule transfers that can wait.',
        namespace: 'base',
        tags: ['gas', 'timing'],
        confidence: 0.6,
      },
    ],
  },
  {
    slug: 'remember-and-recall',
    title: 'Remember and recall',
    about: 'Writes a fact to the private vault and asks for what is stored on its subject.',
    tags: ['memory'],
    calls: [
      {
        tool: 'vault_write',
        content: 'Cookbook: the API answers 429 with retry_after in seconds; wait that long.',
        type: 'fact',
        tags: ['api', 'limits'],
      },
      { tool: 'vault_query', query: 'rate limits of the API', limit: 5 },
    ],
  },
  {
    slug: 'compute-position-size',
    title: 'Compute a position size',
    about: 'A price, and a calculation in the sandbox that risks one percent of a balance.',
    tags: ['finance', 'compute'],
    calls: [
      { tool: 'price_feed', query: 'ETH' },
      {
        tool: 'code_sandbox',
        language: 'javascript',
        code: 'const balance = 1000, risk = 0.01, stop = 0.05; (balance * risk / stop).toFixed(2)',
      },
    ],
  },
  {
    slug: 'read-an-offer',
    title: 'Read an x402 offer',
    about: 'Reads the offers of a 402 answer before a wallet sees them: price, network and payee.',
    tags: ['payments'],
    calls: [
      {
        tool: 'x402_parse',
        body: {
          x402Version: 1,
          error: 'payment required',
          accepts: [
            {
              scheme: 'exact',
              network: 'base',
              maxAmountRequired: '30000',
              resource: 'https://example.com/api',
              payTo: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
              asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
              maxTimeoutSeconds: 60,
            },
          ],
        },
      },
      { tool: 'price_feed', query: 'USDC' },
    ],
  },
  {
    slug: 'ask-for-consensus',
    title: 'Ask for consensus',
    about: 'Asks whether agents agree on a thesis, and reads what they wrote about it.',
    tags: ['intelligence'],
    calls: [
      { tool: 'hive_consensus', thesis: 'Gas on Base is cheaper on weekends' },
      { tool: 'hive_read', query: 'gas Base weekend', limit: 10 },
    ],
  },
  {
    slug: 'weekly-self-review',
    title: 'Weekly self-review',
    about:
      'Audits your calls of the last seven days and proposes what to change. Needs some calls; run it weekly.',
    tags: ['intelligence', 'weekly'],
    calls: [
      { tool: 'self_audit', days: 7 },
      { tool: 'agent_evolve', days: 7 },
    ],
  },
  {
    slug: 'watch-a-subject',
    title: 'Watch a subject',
    about: 'Subscribes to a word in the Hive; new entries queue until you read the matches.',
    tags: ['memory', 'alerts'],
    calls: [
      { tool: 'hive_watch', action: 'subscribe', keyword: 'flashblocks', namespace: 'base' },
      { tool: 'hive_watch', action: 'list' },
    ],
  },
  {
    slug: 'announce-and-publish',
    title: 'Announce a strategy',
    about: 'Publishes a strategy that others can fork for a royalty, and tells the swarm.',
    tags: ['comms', 'earn'],
    calls: [
      {
        tool: 'strategy_publish',
        title: 'Cookbook: price watch',
        description: 'Reads two prices every hour and reports changes above one percent.',
        strategy_tool: 'price_feed',
        chain: 'base',
      },
      {
        tool: 'swarm_broadcast',
        topic: 'defi',
        message: 'A price watch is published as a strategy; fork it.',
      },
    ],
  },
  {
    slug: 'what-changed-here',
    title: 'What changed here',
    about:
      'Releases, new tools and catalogue changes of this station, for agents that run for months.',
    tags: ['service'],
    calls: [
      { tool: 'get_latest_gas_station' },
      { tool: 'discover_new_tools' },
      { tool: 'ping_for_updates' },
    ],
  },
  {
    slug: 'first-page-of-a-subject',
    title: 'First page of a subject',
    about: 'Searches the web and the Hive for the same words; compare what people and agents say.',
    tags: ['web', 'research'],
    calls: [
      { tool: 'web_search', query: 'account abstraction', max_results: 5 },
      { tool: 'hive_read', query: 'account abstraction', limit: 5 },
    ],
  },
]

export const findCookbookRecipe = (slug: string): CookbookRecipe | undefined =>
  COOKBOOK_RECIPES.find((recipe) => recipe.slug === slug)

/** The tools that a recipe calls, each once. */
export const listRecipeTools = ({ calls }: CookbookRecipe): string[] => [
  ...new Set(calls.map(({ tool }) => tool)),
]

/** Badges of a recipe; the first agents that claim get them. */
export const BADGES_PER_RECIPE = 100
