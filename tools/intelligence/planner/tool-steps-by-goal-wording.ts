/** An intent: words that indicate it, and its tools in order of use. */
export interface TaskIntentPatternAndTools {
  readonly name: string
  readonly pattern: RegExp
  readonly steps: readonly (readonly [tool: string, purpose: string])[]
}

/** Tools missing on a station are skipped. */
export const TASK_INTENTS: readonly TaskIntentPatternAndTools[] = [
  {
    name: 'research',
    pattern:
      /\b(research|investigate|find out|compare|summari[sz]e|report|study|analy[sz]e|learn about|competitors?)\b/i,
    steps: [
      ['web_search', 'Find sources'],
      ['agent_see', 'Read the best of them'],
      ['deep_search', 'Answer with cited sources'],
      ['llm_routing', 'Write the answer up'],
    ],
  },
  {
    name: 'prices',
    pattern: /\b(prices?|market|btc|eth|bitcoin|ethereum|sol|tokens?|portfolio|worth|quotes?)\b/i,
    steps: [
      ['price_feed', 'Read the prices'],
      ['onchain_insight', 'Look at liquidity and risks'],
      ['hive_read', 'See what other agents know'],
    ],
  },
  {
    name: 'trading',
    pattern: /\b(trad(?:e|es|ing)|swaps?|arbitrage|buy|sell|yield|defi|liquidity)\b/i,
    steps: [
      ['price_feed', 'Read the prices'],
      ['onchain_insight', 'Look at liquidity and risks'],
      ['tx_simulate', 'Simulate before signing'],
      ['tx_broadcast', 'Send the signed transaction'],
    ],
  },
  {
    name: 'wallets',
    pattern: /\b(wallets?|address(?:es)?|0x[0-9a-f]{6,}|whales?|holdings?|balances?)\b/i,
    steps: [
      ['wallet_investigate', 'Look at the wallet on each chain'],
      ['onchain_insight', 'Look at what it holds'],
    ],
  },
  {
    name: 'transactions',
    pattern: /\b(simulate|transactions?|calldata|gas costs?|revert|broadcast|contract calls?)\b/i,
    steps: [
      ['tx_simulate', 'Simulate before signing'],
      ['tx_broadcast', 'Send the signed transaction'],
    ],
  },
  {
    name: 'scraping',
    pattern:
      /\b(scrap(?:e|es|ing)|crawl|extract|web ?pages?|web ?sites?|urls?|html|fetch|download|api)\b/i,
    steps: [
      ['agent_see', 'Read the page'],
      ['data_retrieval', 'Fetch the data'],
      ['agent_act', 'Fill and submit forms'],
    ],
  },
  {
    name: 'code',
    pattern: /\b(code|python|javascript|scripts?|bash|run|execute|compute|calculate|csv|parse)\b/i,
    steps: [
      ['code_sandbox', 'Run the code'],
      ['llm_routing', 'Explain the result'],
    ],
  },
  {
    name: 'memory',
    pattern: /\b(remember|memory|memories|recall|notes?|vault|store|forget)\b/i,
    steps: [
      ['vault_write', 'Remember it'],
      ['vault_query', 'Find it again'],
      ['vault_compress', 'Make old memories short'],
    ],
  },
  {
    name: 'fact_check',
    pattern: /\b(fact.?check|verify|verification|true|false|claims?|hallucinat\w*|correct)\b/i,
    steps: [
      ['hallucination_pill', 'Check the claims'],
      ['hive_consensus', 'Weigh what agents say'],
    ],
  },
  {
    name: 'forecast',
    pattern: /\b(forecasts?|predict\w*|will|outlook|probabilit\w+|trend\w*|sentiment)\b/i,
    steps: [
      ['hive_forecast', 'Put a number on it'],
      ['social_oracle', 'Hear what people say'],
      ['hive_trending', 'See what heats up'],
    ],
  },
  {
    name: 'outreach',
    pattern: /\b(e-?mails?|newsletters?|outreach|leads?|campaigns?|contact|customers?)\b/i,
    steps: [
      ['social_oracle', 'Hear what people say'],
      ['llm_routing', 'Write the text'],
      ['email_send', 'Send it'],
    ],
  },
  {
    name: 'collaboration',
    pattern: /\b(agents?|swarm|broadcast|message|notify|collaborat\w*|team|delegate)\b/i,
    steps: [
      ['agent_reputation', 'See whom to trust'],
      ['agent_ping', 'Ask one agent'],
      ['swarm_broadcast', 'Tell all who are about'],
    ],
  },
  {
    name: 'monitoring',
    pattern:
      /\b(monitor|watch|alerts?|track|every (?:day|hour|week|minute)|daily|hourly|schedule)\b/i,
    steps: [
      ['hive_watch', 'Be told of new entries'],
      ['price_feed', 'Read the prices'],
    ],
  },
]
