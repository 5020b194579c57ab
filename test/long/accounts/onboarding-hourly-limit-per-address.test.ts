import { randomUUID } from 'node:crypto'
import t from 'tap'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestStation,
} from '../../support/station/start-test-station.ts'

const OFFER = { x402Version: 1, accepts: [] }
const LIMITED = { RATE_LIMITS: 'on' }
/** Sends with a burst of 20 writes: each address has its own rate, so tests take a new one. */
const from = (address: string) => ({ 'x-forwarded-for': address })
const batchOf = (agents: number) => ({
  agents: Array.from({ length: agents }, (_, at) => ({ name: `agent-${at}` })),
})
const one = (node: TestStation, address: string) =>
  node.ask('POST', '/api/onboard', { json: { name: 'ann' }, headers: from(address) })
const batch = (node: TestStation, address: string, agents: number, headers = {}) =>
  node.ask('POST', '/api/onboard/bulk', {
    json: batchOf(agents),
    headers: { ...from(address), ...headers },
  })
const joined = ({ body }: TestReply) =>
  (body['agents'] as TestReply['body'][] | undefined) ?? [body]
const credits = (answer: TestReply) =>
  joined(answer).map((agent) => agent['starter_credits_usdc'] as number)

t.test('agents per address and hour', async (t) => {
  const main = await startInProcessTestStation(t, LIMITED)
  const beside = await spawnSecondNode(t, main, LIMITED)
  const nodes = [main, beside]

  t.test('ten agents per hour get credits, across two nodes without Redis', async (t) => {
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, at) => one(nodes[at % 2] as TestStation, '192.0.2.1')),
    )
    const counts = countReplies(answers)
    const [admitted, refused] = [counts['201 undefined'] ?? 0, counts['429 rate_limited'] ?? 0]
    // On a busy machine a commit may be confirmed too late; it counts all the same.
    t.equal(admitted + (counts['503 unavailable'] ?? 0) + refused, 16, JSON.stringify(counts))
    t.ok(admitted <= 10 && refused <= 6)
    const granted = answers.filter(({ status }) => status === 201).flatMap(credits)
    t.strictSame(new Set(granted), new Set([0.5]))
    const [row] = await main.sql<{ n: number; agents: number }[]>`
      select max((state->'context'->'newcomers'->>'agents')::int) as n,
             (select count(*)::int from agents) as agents from actors where kind = 'visitor'`
    t.equal(row?.n, 10)
    t.ok((row?.agents ?? 11) <= 10)
  })

  t.test('a batch and single agents share one hour in either order', async (t) => {
    for (let count = 0; count < 9; count += 1) t.equal((await one(main, '192.0.2.2')).status, 201)
    const refused = await batch(beside, '192.0.2.2', 20)
    t.match(refused, {
      status: 429,
      body: {
        code: 'rate_limited',
        limit_source: 'rate.onboard',
        detail: /^20 agents are more than the 1 that this address may still bring in its hour/,
      },
    })
    t.equal((await one(main, '192.0.2.2')).status, 201, 'what was refused takes no place')
    const first = await batch(main, '192.0.2.3', 20)
    t.equal(first.status, 200)
    t.equal(first.headers['ratelimit-policy'], '"onboard";q=10;w=3600')
    t.match(first.headers['ratelimit'], /^"onboard";r=0;t=3(600|5\d\d)$/)
    t.equal((await one(beside, '192.0.2.3')).status, 429)
    t.equal((await batch(beside, '192.0.2.3', 1)).status, 429)
  })

  t.test('agents of a batch beyond the tenth start without credits, with the reason', async (t) => {
    const key = { 'idempotency-key': randomUUID() }
    const answer = await batch(main, '192.0.2.4', 20, key)
    t.strictSame(credits(answer), [...Array(10).fill(0.5), ...Array(10).fill(0)])
    const [rich, poor] = [joined(answer).at(0), joined(answer).at(-1)]
    t.equal(rich?.['starter_credits_note'], null)
    t.match(
      poor?.['starter_credits_note'],
      /10 get starter credits; the next ones get them from \d{4}-/,
    )
    t.equal(await main.balance({ id: '', key: poor?.api_key ?? '' }), 0)
    t.equal(await main.balance({ id: '', key: rich?.api_key ?? '' }), 0.5)
    t.equal(
      (await batch(beside, '192.0.2.4', 20, key)).text,
      answer.text,
      'a repetition says the same',
    )
  })

  t.test('concurrent batches and single agents stay within the limit of one of them', async (t) => {
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, at) =>
        at % 3 === 0
          ? batch(nodes[at % 2] as TestStation, '192.0.2.5', 20)
          : one(nodes[at % 2] as TestStation, '192.0.2.5'),
      ),
    )
    const born = answers.filter(({ status }) => status < 300).flatMap(credits)
    t.ok(born.length <= 20, `${born.length} agents`)
    t.ok(born.filter((amount) => amount > 0).length <= 10)
  })

  t.test('a /48 of IPv6 counts as sixteen of its /64', async (t) => {
    const prefix = (at: number) => `2001:db8:7:${at.toString(16)}::1`
    for (let at = 0; at < 8; at += 1) t.equal((await batch(main, prefix(at), 20)).status, 200)
    const refused = await one(beside, prefix(100))
    t.match(refused, {
      status: 429,
      body: { limit: 160, per: 'network', detail: /^Only 160 new agents an hour for each network/ },
    })
    t.equal((await one(main, '2001:db8:8::1')).status, 201)
  })
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

t.test('an onboarding rejected by the network does not count for the address', async (t) => {
  const main = await startInProcessTestStation(t, { ...LIMITED, ONBOARD_PER_HOUR_PER_IP: '1' })
  const at = (n: number) => `2001:db8:9:${n.toString(16)}::1`
  for (let n = 0; n < 16; n += 1) t.equal((await one(main, at(n))).status, 201)
  t.equal((await one(main, at(99))).status, 429)
  const counts = await main.sql<{ n: number }[]>`
    select (state->'context'->'newcomers'->>'agents')::int as n from actors where kind = 'visitor'`
  t.strictSame(
    counts.map(({ n }) => n).toSorted((a, b) => b - a),
    [16, ...Array<number>(16).fill(1), 0],
  )
})

t.test('a higher hourly limit admits several batches', async (t) => {
  const main = await startInProcessTestStation(t, { ...LIMITED, ONBOARD_PER_HOUR_PER_IP: '45' })
  t.equal((await batch(main, '192.0.2.1', 20)).status, 200)
  t.equal((await batch(main, '192.0.2.1', 20)).status, 200)
  t.equal((await batch(main, '192.0.2.1', 6)).status, 429)
  const last = await batch(main, '192.0.2.1', 5)
  t.strictSame(credits(last), Array(5).fill(0.5))
})

t.test('an empty or too large batch is rejected with its maximum', async (t) => {
  const main = await startInProcessTestStation(t)
  for (const agents of [0, 21, 101])
    t.match(await batch(main, '192.0.2.1', agents), {
      status: 400,
      body: { errors: [{ pointer: '/agents', detail: 'must have 1 to 20 entries' }] },
    })
  t.equal((await batch(main, '192.0.2.1', 20)).status, 200)
  const wide = await startInProcessTestStation(t, {
    BULK_ONBOARD_MAX: '30',
    STARTER_CREDITS_USDC: '0',
  })
  t.match(await batch(wide, '192.0.2.1', 31), {
    status: 400,
    body: { errors: [{ detail: 'must have 1 to 30 entries' }] },
  })
  const [first] = joined(await batch(wide, '192.0.2.1', 30))
  t.match(first, {
    starter_credits_usdc: 0,
    starter_credits_note: 'This station gives no starter credits.',
  })
})

t.test('all /64 of a /48 share the free calls of sixteen', async (t) => {
  const main = await startInProcessTestStation(t, { FREE_TIER_PER_DAY: '2' })
  const look = (at: number) =>
    main.call(null, 'x402_parse', { body: OFFER }, from(`2001:db8:5:${at.toString(16)}::1`))
  const calls = await Promise.all(Array.from({ length: 40 }, (_, at) => look(at)))
  const free = calls.filter(({ status }) => status !== 429)
  t.equal(free.length, 32, JSON.stringify(countReplies(calls)))
  const refused = calls.find(({ status }) => status === 429)
  t.match(refused?.body, {
    code: 'free_tier_exhausted',
    detail: /2 free calls of x402_parse a day for each address, and 32 for each IPv6 \/48/,
  })
  const other = from('2001:db8:6::1')
  t.equal((await main.call(null, 'x402_parse', { body: OFFER }, other)).status, free[0]?.status)
  await main.verify()
})
