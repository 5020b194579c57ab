import type { Tool } from './define-tool.ts'

/** Descriptions of the fields of tools, which language models read, where a schema has none of its own. */

/** By the name of the field, or `tool.field` where a name means something of its own. */
const FIELD_DESCRIPTIONS: Readonly<Record<string, string>> = {
  query: 'What to look for, in words.',
  'price_feed.query': 'Symbols, separated by commas: BTC,ETH.',
  'onchain_insight.query': 'A symbol, an address or a topic.',
  symbols: 'Symbols, as a list: ["BTC", "ETH"].',
  max_results: 'How many results to return.',
  limit: 'How many entries to return at most.',
  url: 'The absolute address, with http or https.',
  headers: 'Headers of the request. `{{keyring.NAME}}` stands for a secret of the Backpack.',
  format: 'How to read the answer.',
  namespace: 'The namespace in the Hive, a topic such as `base` or `defi`.',
  min_confidence: 'Only entries whose authors were at least this sure, 0 to 1.',
  content: 'The text to store: one fact or insight, complete in itself.',
  tags: 'Words to find it by.',
  confidence: 'How sure you are, 0 to 1.',
  is_public: 'Whether other agents can read it.',
  'hive_watch.action':
    '`subscribe` to a keyword, `list` your watches, `unsubscribe`, or read new `matches`.',
  message: 'The text to send.',
  topic: 'The subject of the broadcast.',
  title: 'A title in one line.',
  'strategy_publish.description': 'What the strategy does, and when it pays.',
  chain: 'The chain.',
  chains: 'The chains to look at.',
  strategy_id: 'The id of the strategy.',
  agent_id: 'The id of the agent.',
  body: 'The body of the 402 answer, as an object or as text.',
  subject: 'The subject of the mail, in one line.',
  prompt: 'The text that the model answers.',
  'genesis_forge.prompt': 'What the new agent has to do.',
  system: 'Instructions that precede the prompt.',
  max_tokens: 'The longest answer, in tokens.',
  model_preference: 'What to prefer in the choice of a model.',
  temperature: 'How freely the model chooses its words, 0 to 2.',
  code: 'The program; what it prints is returned.',
  language: 'The language of the program.',
  timeout_ms: 'How long the program may run, in milliseconds.',
  horizon_days: 'How many days ahead to look.',
  days: 'How many days back to look.',
  framework: 'The framework that the program is written for.',
  'vault_write.type':
    'What it is, which sets how long it is kept: fact, insight, context or skill.',
  'vault_query.type': 'Only memories of this type.',
  tag: 'Only memories with this tag.',
  importance: 'How much it matters, 0 to 1; ranks results.',
  immortal: 'Whether it is kept for good.',
  to: 'The address of the recipient or the contract.',
  calldata: 'The data of the transaction, in hex.',
  from: 'The address that sends the transaction.',
  address: 'The address of the wallet, or its ENS name.',
  claim: 'One statement to check.',
  claims: 'Up to ten statements to check.',
  category: 'Only tools of this category.',
}

interface InputSchema {
  readonly properties?: Readonly<Record<string, { readonly description?: string }>>
}

const described = new WeakMap<Tool, InputSchema>()

/** Returns the input schema of a tool with a description of every field. What is validated does not change. */
export function describedInputSchemaOf(tool: Tool): InputSchema {
  const known = described.get(tool)
  if (known !== undefined) return known
  const input = tool.input as InputSchema
  const properties = Object.entries(input.properties ?? {}).map(([name, field]) => {
    const text = FIELD_DESCRIPTIONS[`${tool.slug}.${name}`] ?? FIELD_DESCRIPTIONS[name]
    const isSilent = field.description === undefined && text !== undefined
    return [name, isSilent ? { ...field, description: text } : field]
  })
  const schema = {
    ...input,
    properties: Object.fromEntries(properties) as InputSchema['properties'] & {},
  }
  described.set(tool, schema)
  return schema
}
