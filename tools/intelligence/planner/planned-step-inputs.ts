import type { ParsedGoal } from './parse-goal.ts'

/** Builds the input of planned steps from a goal. */

type Fields = Record<string, unknown>

/** Returns the input of a step from the words of the goal; `before` refers to the answer of earlier steps. */
type StepInputBuilder = (goal: ParsedGoal, before: string | null) => Fields

const EXTRACTS = {
  title: /\btitles?\b/i,
  headings: /\bhead(?:ing|line)s?\b/i,
  prices: /\bprices?\b/i,
  links: /\blinks?\b/i,
  forms: /\bforms?\b/i,
} as const

/** Verbs that ask a model to work on a text. */
const WRITING =
  /\b(?:summar\w+|translat\w+|rewrite|write|draft|explain|classif\w+|paraphras\w+|compose|newsletters?|digest|blog|essay|tweet|analy\w+|compar\w+)\b/i

const toTitle = (text: string): string => {
  const short = text.length > 80 ? `${text.slice(0, 79).replace(/\s+\S*$/, '')}…` : text
  return short.charAt(0).toUpperCase() + short.slice(1)
}

const message = ({ quoted, topic }: ParsedGoal, before: string | null): string =>
  quoted ?? before ?? topic
const agent = ({ agents: [id = '<id of the agent>'] }: ParsedGoal): string => id
const symbol = ({ symbols: [one = '<symbol>'] }: ParsedGoal): string => one
const statement = ({ quoted, topic }: ParsedGoal): string => quoted ?? topic

/** An open value becomes `<what>`, never an invented value. */
export const PLANNED_STEP_INPUT_BUILDERS: Readonly<Record<string, StepInputBuilder>> = {
  price_feed: ({ symbols }) => ({ symbols: symbols.length === 0 ? ['<symbol>'] : symbols }),
  onchain_insight: (goal) => ({
    query: goal.addresses[0] ?? symbol(goal),
    ...(goal.chain === null ? {} : { chain: goal.chain }),
  }),
  wallet_investigate: ({ addresses: [address = '<address of the wallet>'], chain }) => ({
    address,
    ...(chain === null ? {} : { chains: [chain] }),
  }),
  agent_see: ({ urls: [url = '<address of the page>'], words }) => {
    const extract = Object.entries(EXTRACTS).flatMap(([part, pattern]) =>
      pattern.test(words) ? [part] : [],
    )
    return { url, ...(extract.length === 0 ? {} : { extract }) }
  },
  data_retrieval: ({ urls: [url = '<address of the data>'], words }) => ({
    url,
    format: /\bcsv\b/i.test(words) ? 'csv' : /\btext\b/i.test(words) ? 'text' : 'json',
  }),
  agent_act: ({ urls: [url = '<address of the page>'], text }) => ({
    url,
    instruction: `<fill, click or submit, step by step: ${text}>`,
  }),
  web_search: ({ topic }) => ({ query: topic.slice(0, 400) }),
  deep_search: ({ topic }) => ({ query: topic.slice(0, 400) }),
  social_oracle: ({ topic }) => ({ query: topic.slice(0, 200) }),
  hive_read: ({ topic }) => ({ query: topic }),
  hive_trending: () => ({}),
  hive_consensus: (goal) => ({ thesis: statement(goal) }),
  hive_forecast: (goal) => ({ query: statement(goal) }),
  hive_write: (goal, before) => ({ content: goal.quoted ?? before ?? '<what was found>' }),
  hive_watch: ({ topic }) => ({ action: 'subscribe', keyword: topic.slice(0, 100) }),
  hive_feature: () => ({ entry_id: '<id of your entry>' }),
  vault_write: (goal, before) => ({ content: goal.quoted ?? before ?? goal.topic, type: 'fact' }),
  vault_query: ({ topic }) => ({ query: topic }),
  vault_compress: () => ({}),
  vault_promote: () => ({ memory_id: '<id of the memory>' }),
  hallucination_pill: (goal) => ({ claim: statement(goal) }),
  llm_routing: ({ text, clauses }, before) => {
    const pattern =
      before === null ? text : (clauses.find((clause) => WRITING.test(clause)) ?? text)
    return { prompt: before === null ? pattern : `${pattern}\n\n${before}` }
  },
  code_sandbox: ({ text, quoted, words }, before) => ({
    code:
      /`/.test(text) && quoted !== null
        ? quoted
        : `<a program for this${before === null ? '' : `, over ${before.slice(1, -1)}`}>`,
    language: /\b(?:javascript|node|js)\b/i.test(words)
      ? 'javascript'
      : /\b(?:bash|shell)\b/i.test(words)
        ? 'bash'
        : 'python',
  }),
  tx_simulate: ({ addresses: [to = '<address>'], chain }) => ({ chain: chain ?? '<chain>', to }),
  tx_broadcast: ({ transactions: [raw = '<the signed transaction>'], chain }) => ({
    chain: chain ?? '<chain>',
    raw_tx: raw,
  }),
  x402_parse: () => ({ body: '<the 402 answer>' }),
  agent_reputation: (goal) => ({ agent_id: agent(goal) }),
  agent_ping: (goal, before) => ({ target_agent_id: agent(goal), message: message(goal, before) }),
  swarm_broadcast: (goal, before) => ({
    topic: toTitle(goal.topic),
    message: message(goal, before),
  }),
  email_send: (goal, before) => ({
    to: goal.emails[0] ?? '<address of the recipient>',
    subject: toTitle(goal.quoted ?? goal.topic),
    body: goal.quoted ?? before ?? '<what the e-mail says>',
  }),
  genesis_forge: ({ topic }) => ({ prompt: topic }),
  strategy_publish: (goal) => ({ title: toTitle(goal.topic), description: '<how it works>' }),
  strategy_fork: () => ({ strategy_id: '<id of the strategy>' }),
  self_audit: () => ({}),
  agent_evolve: () => ({}),
  get_latest_gas_station: () => ({}),
  discover_new_tools: ({ topic }) => ({ interest: topic.slice(0, 500) }),
  ping_for_updates: () => ({}),
}

/** Returns the names of the open fields. */
export const listPlaceholderFields = (example: Fields): string[] =>
  Object.entries(example).flatMap(([name, value]) =>
    /<[^>]+>/.test(JSON.stringify(value)) ? [name] : [],
  )
