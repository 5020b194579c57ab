import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TSchema } from 'typebox'
import t from 'tap'
import { ServiceError } from '../../core/errors.ts'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import {
  createToolCatalogue,
  NATIVE_TOOLS,
  RESERVED_OUTPUT_FIELDS,
} from '../../tools/tool-catalogue.ts'
import type { ToolPorts } from '../../tools/tool-ports.ts'
import { TEST_AUTHOR_AGENT_ID } from '../support/tools/test-tool-context.ts'

const ports = {
  prices: { providers: ['coingecko'] },
  search: { providers: ['wikipedia'] },
  social: { platforms: ['hackernews'], providers: [] },
  mail: {},
  llm: null,
  chain: { about: () => ({ network: 'mainnet' }) },
  sandbox: { level: () => ({ isolation: null, allowed: true, starts: true }) },
} as unknown as ToolPorts
const catalogue = createToolCatalogue({
  baseUrl: 'https://gas.test',
  stats: (slug) => (slug === 'hive_read' ? { successRate: 0.5, averageMs: 12 } : null),
  ports: () => ports,
})
const tool = (slug: string) => catalogue.get(slug)

/** The price and the access of each tool, kept apart from the code. */
const { tools: SPECIFIED } = JSON.parse(
  readFileSync(join(REPOSITORY_ROOT, 'test/fixtures/spec-tools.json'), 'utf8'),
) as { tools: readonly { slug: string; access: string; price_usdc: number }[] }

/** The errors with which a body is refused; none when it is taken. */
function misfits(slug: string, body: Record<string, unknown>) {
  try {
    void catalogue.validateInput(tool(slug), body, 'tester')
    return []
  } catch (error) {
    return error instanceof ServiceError ? error.details['errors'] : error
  }
}

t.test('a value that does not fit a pattern or format gets a plain message', async (t) => {
  const told: [string, Record<string, unknown>, string, string][] = [
    [
      'agent_see',
      { url: 'example.com' },
      '/url',
      'must be a whole address, such as https://example.com/',
    ],
    [
      'wallet_investigate',
      { address: 'ada.eth' },
      '/address',
      'must be an address: 0x and 40 hex digits',
    ],
    ['email_send', { to: 'ada', subject: 's', body: 'b' }, '/to', 'must be an e-mail address'],
    ['agent_ping', { target_agent_id: 'ada', message: 'm' }, '/target_agent_id', 'must be a UUID'],
    ['hive_read', { query: '  ' }, '/query', 'must have a letter or a digit'],
  ]
  for (const [slug, body, pointer, detail] of told)
    t.strictSame(misfits(slug, body), [{ pointer, detail }], slug)
})

t.test('the catalogue has the specified prices and free tiers', async (t) => {
  const of = (slug: string) => {
    const { price_usdc, access, key_required, free_tier, x402_compatible } = catalogue.toEntry(
      tool(slug),
    )
    return [access, price_usdc, key_required, free_tier, x402_compatible]
  }
  const tenThen = (overage: number | null) => ({ calls_per_day: 10, overage_price_usdc: overage })
  t.strictSame(of('price_feed'), ['free', 0, false, tenThen(0.005), true])
  t.strictSame(of('hive_read'), ['free', 0, false, tenThen(0.005), true])
  t.strictSame(of('agent_reputation'), ['free', 0, false, tenThen(null), false])
  t.strictSame(of('x402_parse'), ['free', 0, false, tenThen(null), false])
  const keyless = { calls_per_day: null, overage_price_usdc: 0.01 }
  t.strictSame(of('data_retrieval'), ['free_with_key', 0, false, keyless, true])
  t.strictSame(of('hive_write'), ['free_with_key', 0, true, keyless, true])
  t.strictSame(of('hive_trending'), ['paid', 0.005, false, null, true])
  t.strictSame(of('agent_ping'), ['paid', 0.005, true, null, true])
  t.strictSame(of('swarm_broadcast'), ['paid', 0.02, true, null, true])
})

t.test('a tool with external effects is marked, so that a program asks first', async (t) => {
  const acting = NATIVE_TOOLS.filter((one) => catalogue.toEntry(one).acts_on_others)
  t.strictSame(acting.map(({ slug }) => slug).sort(), [
    'agent_act',
    'agent_ping',
    'email_send',
    'hive_feature',
    'hive_write',
    'strategy_publish',
    'swarm_broadcast',
    'tx_broadcast',
    'vault_promote',
    'vault_share',
  ])
  for (const { slug, effect } of NATIVE_TOOLS)
    if (effect === 'external') t.ok(catalogue.toEntry(tool(slug)).acts_on_others, slug)
})

t.test('every tool has the specified price and access', async (t) => {
  for (const { slug, access, price_usdc } of SPECIFIED) {
    const entry = catalogue.toEntry(tool(slug))
    t.strictSame([entry.access, entry.price_usdc], [access, price_usdc], slug)
  }
  const priced = new Set(SPECIFIED.map(({ slug }) => slug))
  for (const { slug } of catalogue.short()) t.ok(priced.has(slug), `${slug} is specified`)
})

t.test('the price of a tool that is free with a key depends on the key alone', async (t) => {
  const retrieval = tool('data_retrieval')
  t.equal(catalogue.priceOf(retrieval, { url: 'https://a.test' }, true), ZERO_MICROS)
  t.equal(catalogue.priceOf(retrieval, { url: 'https://a.test' }, false), fromUsdc(0.01))
  t.equal(catalogue.priceOf(tool('agent_ping'), {}, false), fromUsdc(0.005))
  t.equal(catalogue.priceOf(tool('price_feed'), {}, false), ZERO_MICROS)
})

t.test('slugs are unique and found with dashes and underscores', async (t) => {
  t.equal(catalogue.find('hive-read'), catalogue.find('hive_read'))
  t.equal(catalogue.find('constructor'), undefined)
  t.throws(() => catalogue.get('nope'), { code: 'unknown_tool' })
  const settings = { baseUrl: '', stats: () => null, ports: () => ports }
  t.throws(
    () => createToolCatalogue({ ...settings, tools: [...NATIVE_TOOLS, ...NATIVE_TOOLS] }),
    /share a slug/,
  )
})

t.test('the counts of the catalogue equal its lists', async (t) => {
  const shown = catalogue.short()
  const listed = shown.length
  t.equal(listed, NATIVE_TOOLS.filter((one) => one.unlisted !== true).length)
  const free = shown.filter(({ access }) => access !== 'paid').length
  t.match(catalogue.totals(), {
    total: listed,
    native_count: listed,
    community_count: 0,
    free_count: free,
  })
  const memory = catalogue.short(({ category }) => category === 'memory')
  t.ok(memory.length > 0 && memory.every(({ category }) => category === 'memory'))
  t.equal(catalogue.totals('memory').total, memory.length)
  t.match(catalogue.totals('nothing'), { total: 0 })
})

t.test('an entry has every specified field, measured ones null until measured', async (t) => {
  for (const entry of catalogue.entries()) {
    t.match(entry, {
      slug: /^[a-z0-9]+(_[a-z0-9]+)*$/,
      name: String,
      category: /^(perception|web|finance|memory|intelligence|onchain|compute|comms)$/,
      description: /\.$/,
      type: 'native',
      call_endpoint: 'https://gas.test/api/refuel',
      docs_url: `https://gas.test/api/tools/${entry.slug}`,
      input_schema: { type: 'object', additionalProperties: false },
      output_schema: { type: 'object' },
      availability: { available: Boolean },
    })
    t.ok(entry.tags.length > 0 && entry.use_cases.length > 0 && entry.example_calls.length > 0)
    for (const example of entry.example_calls) t.equal(example['tool'], entry.slug)
    t.doesNotThrow(() => JSON.stringify(entry))
  }
  t.match(catalogue.toEntry(tool('hive_read')), { success_rate: 0.5, avg_latency_ms: 12 })
  t.match(catalogue.toEntry(tool('hive_write')), { success_rate: null, avg_latency_ms: null })
  t.match(catalogue.toEntry(tool('price_feed')).availability, { providers: ['coingecko'] })
})

t.test('every example is a valid input, and no output uses a reserved name', async (t) => {
  for (const one of NATIVE_TOOLS) {
    for (const example of one.examples) {
      t.doesNotThrow(
        () => void catalogue.validateInput(one, example as Record<string, unknown>, 'tester'),
        one.slug,
      )
    }
    const { properties } = one.output as TSchema & { properties: Record<string, unknown> }
    for (const name of RESERVED_OUTPUT_FIELDS) t.notOk(name in properties, `${one.slug} ${name}`)
  }
})

t.test('an invalid body lists each field by its pointer and is never coerced', async (t) => {
  t.strictSame(misfits('agent_ping', {}), [
    { pointer: '/target_agent_id', detail: 'is required' },
    { pointer: '/message', detail: 'is required' },
  ])
  t.strictSame(misfits('hive_read', { query: 'x', limit: '5' }), [
    { pointer: '/limit', detail: 'must be a whole number from 1 to 50, not a string' },
  ])
  t.strictSame(misfits('hive_read', { query: 'x', colour: 1, 'a/b~c': 2 }), [
    { pointer: '/colour', detail: 'is not a field here' },
    { pointer: '/a~1b~0c', detail: 'is not a field here' },
  ])
  t.match(misfits('hive_write', { content: 'x'.repeat(50), tags: ['ok', ''] }), [
    { pointer: '/tags/1' },
  ])
  t.match(misfits('data_retrieval', { url: 'https://a.test', headers: { 'x/y': 1 } }), [
    { pointer: '/headers/x~1y' },
  ])
  t.match(misfits('data_retrieval', { url: 'nope' }), [{ pointer: '/url' }])
  t.strictSame(misfits('data_retrieval', { url: 'https://a.test', format: 'xml' }), [
    { pointer: '/format', detail: 'must be one of json, text, csv' },
  ])
  t.match(misfits('x402_parse', { body: 7 }), [{ pointer: '/body' }])
  t.match(misfits('agent_reputation', { agent_id: 'me' }), [{ pointer: '/agent_id' }])
})

t.test('the specified limits are exact to the character', async (t) => {
  const taken = (slug: string, body: Record<string, unknown>) =>
    t.strictSame(misfits(slug, body), [])
  const refused = (slug: string, body: Record<string, unknown>, pointer: string) =>
    t.match(misfits(slug, body), [{ pointer }])
  for (const length of [50, 2000]) taken('hive_write', { content: 'x'.repeat(length) })
  for (const length of [49, 2001])
    refused('hive_write', { content: 'x'.repeat(length) }, '/content')
  for (const limit of [1, 50]) taken('hive_read', { query: 'x', limit })
  for (const limit of [0, 51, 1.5]) refused('hive_read', { query: 'x', limit }, '/limit')
  for (const value of [-0.01, 1.01])
    refused('hive_read', { query: 'x', min_confidence: value }, '/min_confidence')
  taken('agent_ping', { target_agent_id: TEST_AUTHOR_AGENT_ID, message: '😀'.repeat(1000) })
  refused(
    'agent_ping',
    { target_agent_id: TEST_AUTHOR_AGENT_ID, message: 'x'.repeat(1001) },
    '/message',
  )
  taken('swarm_broadcast', { topic: 't', message: 'x'.repeat(2000) })
  refused('swarm_broadcast', { topic: 't', message: 'x'.repeat(2001) }, '/message')
  refused('swarm_broadcast', { topic: '', message: 'x' }, '/topic')
})

t.test('text that Postgres cannot store is rejected before a commit', async (t) => {
  t.match(misfits('agent_ping', { target_agent_id: TEST_AUTHOR_AGENT_ID, message: 'a\0b' }), [
    { pointer: '/message' },
  ])
  t.match(misfits('hive_write', { content: 'x'.repeat(50), tags: ['\ud800'] }), [
    { pointer: '/tags/0' },
  ])
  t.match(misfits('x402_parse', { headers: { 'a\0': 'x' } }), [{ pointer: '/headers' }])
  let deep: unknown = 1
  for (let n = 0; n < 50_000; n += 1) deep = { deep }
  t.match(misfits('x402_parse', { body: deep }), [{ detail: /deeper/ }])
})

t.test('an invalid output is an error of the tool', async (t) => {
  const good = {
    domains: [],
    tools: [],
    window_hours: 24,
    generated_at: '2026-11-21T10:00:00.000Z',
  }
  t.doesNotThrow(() => catalogue.validateOutput(tool('hive_trending'), good))
  t.throws(
    () => catalogue.validateOutput(tool('hive_trending'), { ...good, window_hours: 'day' }),
    {
      code: 'tool_output_invalid',
      details: { tool: 'hive_trending', errors: [{ pointer: '/window_hours' }] },
    },
  )
  t.throws(() => catalogue.validateOutput(tool('hive_trending'), undefined), {
    code: 'tool_output_invalid',
  })
})
