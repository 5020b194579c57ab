import t, { type Test } from 'tap'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

const N = 64
const PRICE = 0.005
const PAYMENT = { x402Version: 1, accepts: [], error: 'pay' }
const TOOL = 'hive_trending'
/** Streams a key may have open at once. */
const WIDTH = 5
const usdc = (micros: number) => Math.round(micros) / 1e6
const times = (count: number, more = 0) => usdc(count * PRICE * 1e6 + more)

/** How 64 calls reach the service at once: through which doors, and in which form. */
interface Way {
  readonly name: string
  readonly nodes: readonly TestStation[]
  readonly path: '/api/refuel' | '/api/refuel/stream'
}

/** All calls concurrently, spread over nodes and keys; a stream counts by its last event. */
async function storm(way: Way, keys: readonly string[], headers = {}): Promise<TestReply[]> {
  const streams = way.path.endsWith('stream')
  const count = streams ? Math.min(N, keys.length * WIDTH) : N
  const calls = Array.from({ length: count }, async (_, at) => {
    const node = way.nodes[at % way.nodes.length] as TestStation
    const key = keys[at % keys.length]
    const answer = await node.ask('POST', way.path, { key, json: { tool: TOOL }, headers })
    const end = answer.frames.find(({ event }) => event === 'result' || event === 'error')
    if (!streams || answer.status !== 200) return answer
    return {
      ...answer,
      status: end?.event === 'result' ? 200 : 599,
      body: end?.data ?? answer.body,
    }
  })
  return Promise.all(calls)
}

/** Streams are bounded for each key, so that 64 at once need several. */
async function keysFor(way: Way, guest: TestAgent, cap?: number): Promise<string[]> {
  const [node] = way.nodes as [TestStation]
  const make = async () => {
    const wanted = cap === undefined ? {} : { cap_usdc: cap }
    const { body } = await node.ask('POST', '/api/keys', { key: guest.key, json: wanted })
    return body.api_key
  }
  if (cap !== undefined) return [await make()]
  if (way.path === '/api/refuel') return [guest.key]
  return Promise.all(Array.from({ length: Math.ceil(N / WIDTH) }, make))
}

const events = async (node: TestStation, guest: TestAgent, id: string, type: string) => {
  const path = `/api/backpack/${id}/notifications?limit=200`
  const { body } = await node.ask('GET', path, { key: guest.key })
  return (body['notifications'] as { type: string }[]).filter((event) => event.type === type)
}

const unchallenged = ({ headers, body }: TestReply) =>
  headers['payment-required'] === undefined &&
  headers['www-authenticate'] === undefined &&
  body['accepts'] === undefined &&
  body.fund_url === undefined

async function backpack(node: TestStation, guest: TestAgent, fuse: object): Promise<string> {
  const wanted = { agent_name: 'racer', fuse }
  const { body } = await node.ask('POST', '/api/backpack/create', { key: guest.key, json: wanted })
  return body.backpack_id
}

async function task(node: TestStation, guest: TestAgent, budget: number): Promise<string> {
  const wanted = { name: 'race', budget_usdc: budget }
  const { body } = await node.ask('POST', '/api/task/start', { key: guest.key, json: wanted })
  return body.task_id
}

/** Every limit lets through just as many calls as fit into it, and charges nothing more. */
function limits(t: Test, way: Way): void {
  const [node] = way.nodes as [TestStation]
  const refused = (answers: TestReply[]) => answers.filter(({ status }) => status !== 200)

  t.test(`${way.name}: a balance for 33 calls buys 33 calls`, async (t) => {
    const guest = await node.onboard(times(33, 1_217))
    const answers = await storm(way, await keysFor(way, guest))
    t.strictSame(countReplies(answers), { 200: 33, '402 payment_required': answers.length - 33 })
    for (const { body } of refused(answers)) {
      t.match(body, { fund_url: `http://gas.test/fund/${guest.id}`, limit_source: 'balance' })
    }
    t.equal(await node.balance(guest), 0.001217)
  })

  t.test(`${way.name}: a task budget for 20 calls allows 20 calls`, async (t) => {
    const guest = await node.onboard()
    const id = await task(node, guest, times(20, 2_000))
    const answers = await storm(way, await keysFor(way, guest), { 'x-task-id': id })
    t.strictSame(countReplies(answers), {
      200: 20,
      '402 task_budget_exceeded': answers.length - 20,
    })
    t.ok(refused(answers).every(unchallenged), 'no payment challenge goes around the owner')
    t.match(refused(answers)[0]?.body, { task_id: id, limit_source: 'task', limit_usdc: 0.102 })
    const { body } = await node.ask('GET', `/api/task/${id}`, { key: guest.key })
    t.match(body, { spent_usdc: 0.1, held_usdc: 0, remaining: 0.002, calls: 20 })
    t.equal(await node.balance(guest), 0.4)
  })

  for (const [name, fuse, fits] of [
    ['per_call', { per_call_usdc: 0.004999 }, 0],
    ['per_day', { per_day_usdc: times(12, 4_999) }, 12],
    ['per_month', { per_month_usdc: times(9) }, 9],
  ] as const) {
    t.test(
      `${way.name}: a fuse ${name} for ${fits} calls allows ${fits} and pages once`,
      async (t) => {
        const guest = await node.onboard()
        const id = await backpack(node, guest, fuse)
        const answers = await storm(way, await keysFor(way, guest), { 'x-backpack-id': id })
        const served = fits === 0 ? {} : { 200: fits }
        t.strictSame(countReplies(answers), {
          ...served,
          '403 FUSE_TRIPPED': answers.length - fits,
        })
        for (const answer of refused(answers)) {
          const seconds = Number(answer.headers['retry-after'] ?? 0)
          t.ok(name === 'per_call' ? seconds === 0 : seconds >= 1 && seconds <= 31 * 86_400)
          t.ok(unchallenged(answer))
          t.match(answer.body, {
            limit_source: `backpack.${name}`,
            backpack_id: id,
            needed_usdc: PRICE,
          })
        }
        t.equal(await node.balance(guest), usdc(5e5 - fits * PRICE * 1e6))
        t.equal((await events(node, guest, id, 'fuse.tripped')).length, 1)
        const hits = await events(node, guest, id, 'daily_limit_hit')
        t.equal(hits.length, name === 'per_day' ? 1 : 0)
        t.equal((await events(node, guest, id, 'tool_call')).length, fits)
        const state = await node.ask('GET', `/api/backpack/${id}/state`, { key: guest.key })
        t.match(state.body, {
          spent_today_usdc: times(fits),
          spent_month_usdc: times(fits),
          calls: fits,
        })
      },
    )
  }

  t.test(`${way.name}: a key with a cap for 3 calls makes 3 calls`, async (t) => {
    const guest = await node.onboard()
    const answers = await storm(way, await keysFor(way, guest, times(3, 4_000)))
    t.strictSame(countReplies(answers), { 200: 3, '403 key_cap_exceeded': answers.length - 3 })
    t.match(refused(answers)[0]?.body, { limit_source: 'key', limit_usdc: 0.019 })
    t.ok(refused(answers).every(unchallenged))
    t.equal(await node.balance(guest), 0.485)
  })
}

t.test('limits hold for 64 concurrent calls', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await spawnSecondNode(t, main)
  const both = [main, beside]
  const ways: Way[] = [
    { name: 'one process', nodes: [main], path: '/api/refuel' },
    { name: 'one process, held in the ledger', nodes: [main], path: '/api/refuel/stream' },
    { name: 'two processes', nodes: both, path: '/api/refuel' },
    { name: 'two processes, held in the ledger', nodes: both, path: '/api/refuel/stream' },
  ]
  for (const way of ways) limits(t, way)
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

/** A price source that answers on command. */
async function gate(t: Parameters<typeof startFixtureServer>[0]) {
  let status = 200
  let closed = true
  const waiting: (() => void)[] = []
  const { base } = await startFixtureServer(t, (_, response) => {
    const answer = () =>
      sendJsonFixture(
        response,
        status === 200 ? { bitcoin: { usd: 90_000 } } : { error: 'oops' },
        status,
      )
    if (closed) waiting.push(answer)
    else answer()
  })
  return {
    base,
    open(wanted: number) {
      status = wanted
      closed = false
      for (const answer of waiting.splice(0)) answer()
    },
  }
}

t.test('running calls count in every limit', async (t) => {
  for (const outcome of [200, 500]) {
    for (const limit of ['balance', 'task', 'fuse'] as const) {
      t.test(`by ${limit}, until they end with ${outcome}`, async (t) => {
        const source = await gate(t)
        const settings = { FREE_TIER_PER_DAY: '0', COINGECKO_BASE: source.base }
        const main = await startInProcessTestStation(t, settings)
        const guest = await main.onboard(limit === 'balance' ? times(20, 1) : 0.4)
        const headers: Record<string, string> = {}
        if (limit === 'task') headers['x-task-id'] = await task(main, guest, times(20, 1))
        if (limit === 'fuse') {
          headers['x-backpack-id'] = await backpack(main, guest, { per_day_usdc: times(20, 1) })
        }
        let settled = 0
        let allRefused = () => {}
        const refused = new Promise<void>((resolve) => (allRefused = resolve))
        const calls = Array.from({ length: N }, async () => {
          const answer = await main.call(guest, 'price_feed', { query: 'BTC' }, headers)
          if ((settled += 1) === N - 20) allRefused()
          return answer
        })
        await refused
        const before = limit === 'balance' ? times(20, 1) : 0.4
        t.equal(
          await main.balance(guest),
          usdc(before * 1e6 - 20 * PRICE * 1e6),
          'held while they run',
        )
        const code = {
          balance: '402 payment_required',
          task: '402 task_budget_exceeded',
          fuse: '403 FUSE_TRIPPED',
        }[limit]
        const instant = await main.call(guest, TOOL, {}, headers)
        t.strictSame(countReplies([instant]), { [code]: 1 }, 'an instant call takes nothing of it')
        source.open(outcome)
        const answers = await Promise.all(calls)
        const ended = outcome === 200 ? '200' : '503 price_unavailable'
        t.strictSame(countReplies(answers), { [ended]: 20, [code]: N - 20 })
        const spent = outcome === 200 ? 20 * PRICE * 1e6 : 0
        t.equal(await main.balance(guest), usdc(before * 1e6 - spent))
        for (const { status, body } of answers) {
          if (status === 503) t.match(body, { refunded: true, cost_usdc: 0 })
        }
        if (limit === 'task') {
          const { body } = await main.ask('GET', `/api/task/${headers['x-task-id']}`, guest)
          t.match(body, { spent_usdc: usdc(spent), held_usdc: 0 })
        }
        await main.verify()
      })
    }
  }
})

t.test('free calls of a day', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await spawnSecondNode(t, main)
  let address = 0
  for (const [name, nodes] of [
    ['one process', [main]],
    ['two processes', [main, beside]],
  ] as const) {
    const all = (guest: TestAgent | null, tool: string, fields: object) => {
      const visitor = { 'x-forwarded-for': `192.0.2.${(address += 1)}` }
      const node = (at: number) => nodes[at % nodes.length] as TestStation
      const calls = Array.from({ length: N }, (_, at) =>
        node(at).call(guest, tool, fields, visitor),
      )
      return Promise.all(calls)
    }
    t.test(`${name}: ten free calls, then 429 without an overage price`, async (t) => {
      const answers = await all(null, 'x402_parse', { body: PAYMENT })
      t.strictSame(countReplies(answers), { 200: 10, '429 free_tier_exhausted': N - 10 })
      const last = answers.find(({ status }) => status === 429)
      t.ok(Number(last?.headers['retry-after']) > 0)
    })
    t.test(`${name}: ten free calls, then 402 without a key`, async (t) => {
      const answers = await all(null, 'hive_read', { query: 'gas' })
      t.strictSame(countReplies(answers), { 200: 10, '402 payment_required': N - 10 })
    })
    t.test(
      `${name}: ten free calls, then the overage from credits until they are used up`,
      async (t) => {
        const guest = await main.onboard(times(5, 700))
        const answers = await all(guest, 'hive_read', { query: 'gas' })
        t.strictSame(countReplies(answers), { 200: 15, '402 payment_required': N - 15 })
        const rails = answers
          .filter(({ status }) => status === 200)
          .map(({ body }) => body._meta.rail)
        t.equal(rails.filter((rail) => rail === 'free').length, 10)
        t.equal(await main.balance(guest), 0.0007)
      },
    )
    t.test(
      `${name}: ten free calls, then the overage price for callers that can pay it`,
      async (t) => {
        const guest = await main.onboard()
        t.strictSame(countReplies(await all(guest, 'hive_read', { query: 'gas' })), { 200: N })
        t.equal(await main.balance(guest), usdc(5e5 - (N - 10) * PRICE * 1e6))
      },
    )
    t.test(`${name}: a failed call returns its slot`, async (t) => {
      const guest = await main.onboard(times(1))
      const answers = await all(guest, 'price_feed', { query: 'BTC' })
      t.strictSame(Object.keys(countReplies(answers)).sort(), [
        '402 payment_required',
        '503 price_unavailable',
      ])
      const visitor = { 'x-forwarded-for': `192.0.2.${address}` }
      const quote = await main.ask('POST', '/api/quote', {
        key: guest.key,
        json: { tool: 'price_feed', query: 'BTC' },
        headers: visitor,
      })
      t.match(quote.body, { free_calls_left: 10, price_usdc: 0, rail: 'free', would_refuse: null })
      t.equal(await main.balance(guest), PRICE)
    })
  }
  t.test('gas verify finds no difference afterwards', () => main.verify())
})
