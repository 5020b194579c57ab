import t from 'tap'
import { createPageParserPool } from '../../../providers/pages/page-parser-pool.ts'
import { summarizeX402Message } from '../../../chain/x402/summarize-x402-message.ts'
import { createToolCatalogue } from '../../../tools/tool-catalogue.ts'
import type { Tool } from '../../../tools/define-tool.ts'
import type { ToolPorts } from '../../../tools/tool-ports.ts'
import {
  TEST_AUTHOR_AGENT_ID,
  TOOL_CALL_ID,
  createRecordingToolContext,
  TEST_READER_AGENT_ID,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const catalogue = createToolCatalogue({
  baseUrl: 'https://gas.test',
  stats: () => null,
  ports: () => ({}) as ToolPorts,
})
const tool = (slug: string) => catalogue.get(slug)

/** Tools whose answers can be made here; the others answer their examples in tests of their own. */
const FIRST = [
  'price_feed',
  'data_retrieval',
  'hive_read',
  'hive_write',
  'hive_trending',
  'agent_ping',
  'swarm_broadcast',
  'agent_reputation',
  'x402_parse',
].map(tool)

const directory = {
  has: async (agentId: string) => agentId === TEST_READER_AGENT_ID,
  activeSince: async () => [TEST_READER_AGENT_ID, TEST_AUTHOR_AGENT_ID],
}
const run = async (
  one: Tool,
  input: unknown,
  given: ReturnType<typeof createRecordingToolContext>,
) => {
  await one.preflight?.(input, given.context)
  const output = await one.run(input, given.context)
  catalogue.validateOutput(one, output)
  return { output, ...given.recorded }
}

t.test('agent_ping stores a message for seven days and notifies the agent', async (t) => {
  const input = { target_agent_id: TEST_READER_AGENT_ID.toUpperCase(), message: 'hello' }
  const known = { ...directory, has: async () => true }
  const { output, rows, events } = await run(
    tool('agent_ping'),
    input,
    createRecordingToolContext({ directory: known }),
  )
  const { message_id: id } = output as { message_id: string }
  const at = '2026-11-21T10:00:00.000Z'
  t.strictSame(output, {
    delivered: true,
    message_id: id,
    target_agent_id: TEST_READER_AGENT_ID,
    timestamp: at,
  })
  t.strictSame(rows, [
    {
      table: 'messages',
      row: {
        id,
        to_agent: TEST_READER_AGENT_ID,
        from_agent: TEST_AUTHOR_AGENT_ID,
        kind: 'ping',
        subject: null,
        body: 'hello',
        at,
        expires_at: '2026-11-28T10:00:00.000Z',
      },
    },
  ])
  t.strictSame(events, [
    {
      type: 'agent_ping',
      to: TEST_READER_AGENT_ID,
      data: {
        kind: 'ping',
        message_id: id,
        from_agent_id: TEST_AUTHOR_AGENT_ID,
        message: 'hello',
        at,
      },
    },
  ])
})

t.test('agent_ping to an unknown agent is rejected without a charge', async (t) => {
  const refused = run(
    tool('agent_ping'),
    { target_agent_id: TOOL_CALL_ID, message: 'x' },
    createRecordingToolContext({ directory }),
  )
  t.match(await awaitRejectionDetails(refused), { code: 'agent_not_found', agent_id: TOOL_CALL_ID })
})

t.test(
  'swarm_broadcast reaches all active agents, at most 1,000, and is free without any',
  async (t) => {
    const asked: unknown[] = []
    const about = (...recipients: string[]) => ({
      ...directory,
      activeSince: async (...args: unknown[]) => {
        asked.push(args)
        return recipients
      },
    })
    const input = { topic: 'defi', message: 'hi' }
    const two = await run(
      tool('swarm_broadcast'),
      input,
      createRecordingToolContext({ directory: about(TEST_READER_AGENT_ID, TOOL_CALL_ID) }),
    )
    t.match(two.output, { topic: 'defi', recipients_notified: 2 })
    t.match(two.rows, [
      {
        table: 'broadcasts',
        row: { from_agent: TEST_AUTHOR_AGENT_ID, topic: 'defi', body: 'hi', recipients: 2 },
      },
    ])
    t.strictSame(
      two.events.map(({ to }) => to),
      [TEST_READER_AGENT_ID, TOOL_CALL_ID],
    )
    t.match(two.events[0]?.data, {
      kind: 'broadcast',
      from_agent_id: TEST_AUTHOR_AGENT_ID,
      message: 'hi',
    })
    t.strictSame(two.waivedReasons, [])
    t.strictSame(asked, [[Date.UTC(2026, 10, 20, 10), 1000, TEST_AUTHOR_AGENT_ID]])
    const none = await run(
      tool('swarm_broadcast'),
      input,
      createRecordingToolContext({ directory: about() }),
    )
    t.match(none.output, { recipients_notified: 0 })
    t.equal(none.events.length, 0)
    t.equal(none.waivedReasons.length, 1)
  },
)

t.test('agent_reputation answers for agents that exist', async (t) => {
  const found = {
    score: 50,
    tier: 'trusted',
    reliability: 0.9,
    calls: 10,
    tipsReceived: 1.5,
    hiveEntries: 2,
    ageDays: 3.25,
    components: { age: 0.1 },
  }
  const usage = { reputation: async () => found }
  const { output } = await run(
    tool('agent_reputation'),
    { agent_id: TEST_READER_AGENT_ID },
    createRecordingToolContext({ directory, usage }),
  )
  t.strictSame(output, {
    agent_id: TEST_READER_AGENT_ID,
    score: 50,
    tier: 'trusted',
    reliability: 0.9,
    calls: 10,
    tips_received_usdc: 1.5,
    hive_entries: 2,
    age_days: 3.25,
    components: { age: 0.1 },
  })
  const unknown = run(
    tool('agent_reputation'),
    { agent_id: TEST_AUTHOR_AGENT_ID },
    createRecordingToolContext({ directory, usage }),
  )
  t.match(await awaitRejectionDetails(unknown), { code: 'agent_not_found' })
  const gone = run(
    tool('agent_reputation'),
    { agent_id: TEST_READER_AGENT_ID },
    createRecordingToolContext({ directory, usage: { reputation: async () => null } }),
  )
  t.match(await awaitRejectionDetails(gone), { code: 'agent_not_found' })
})

t.test('hive_write rejects content that is mostly blank', async (t) => {
  const blank = run(
    tool('hive_write'),
    { content: `${' '.repeat(40)}short text` },
    createRecordingToolContext(),
  )
  t.match(await awaitRejectionDetails(blank), {
    code: 'invalid_input',
    errors: [{ pointer: '/content' }],
  })
})

t.test('every example of every tool runs and matches its output schema', async (t) => {
  const reply = {
    status: 200,
    headers: { 'content-type': 'text/csv' },
    body: Buffer.from('1'),
    url: 'https://a.test/',
  }
  const quote = {
    usd: 1,
    usd24hChange: null,
    usdMarketCap: null,
    source: 's',
    mode: 'live',
    at: 0,
    stale: false,
  } as const
  const found = {
    id: TOOL_CALL_ID,
    content: 'c',
    confidence: 1,
    namespace: 'n',
    agentId: TEST_AUTHOR_AGENT_ID,
    author: null,
    at: '2026-11-21T10:00:00.000Z',
    firstReadToday: true,
  }
  const reputation = {
    score: 1,
    tier: 't',
    reliability: 1,
    calls: 1,
    tipsReceived: 0,
    hiveEntries: 0,
    ageDays: 0,
    components: {},
  }
  const pages = createPageParserPool()
  t.teardown(() => pages.close())
  const given = {
    pages,
    egress: {
      preflight: async () => {},
      fetch: async () => reply,
      sendSingleHop: async () => ({ ...reply, cookies: [] }),
    },
    prices: {
      providers: [],
      quote: async (symbols: readonly string[]) =>
        new Map(symbols.map((symbol) => [symbol, quote])),
    },
    hive: {
      promoRoyalties: true,
      search: async () => ({ entries: [found], total: 1 }),
      trending: async () => ({
        domains: [{ namespace: 'n', reads: 1, writes: 1, payers: 1, zScore: -1.5 }],
        tools: [{ slug: 's', calls: 1, payers: 1, zScore: 0 }],
        generatedAt: 0,
      }),
    },
    hiveTexts: {
      claim: async (_text: unknown, id: string) => ({ state: 'taken' as const, id }),
      release: async () => undefined,
    },
    directory: { ...directory, has: async () => true },
    usage: { reputation: async () => reputation },
    x402: { parse: summarizeX402Message },
  }
  for (const one of FIRST) {
    for (const example of one.examples) {
      t.ok((await run(one, example, createRecordingToolContext(given))).output, one.slug)
    }
  }
})
