import t from 'tap'
import { countReplies } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import {
  decodePaymentResponse,
  paymentSignatureHeader,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'

const till = await startTestPaymentChain(t)
const { base } = till
const main = await startInProcessTestStation(t, till.settings)
const beside = await spawnSecondNode(t, main)
const { sql } = main
const [author, forker] = [await main.onboard(), await main.onboard()] as [TestAgent, TestAgent]
const ABOUT = { title: 'Weekend batcher', description: 'Send on Sundays.', params: { gwei: 0.01 } }

const publish = async (json: object = ABOUT, guest = author): Promise<string> => {
  const { status, body, text } = await main.ask('POST', '/api/strategies', { key: guest.key, json })
  if (status !== 200) throw new Error(`publishing answered ${status}: ${text}`)
  return String(body['id'])
}
const fork = (node: TestStation, guest: TestAgent, id: string, headers = {}) =>
  node.ask('POST', `/api/strategies/${id}/fork`, { key: guest.key, headers })
const usdc = (micros: number) => Math.round(micros) / 1e6

t.test('a strategy published by tool or by route is listed with the price of a fork', async (t) => {
  const id = await publish({ ...ABOUT, tool: 'price_feed', chain: 'base' })
  const byTool = await main.call(author, 'strategy_publish', { ...ABOUT, is_public: false })
  t.match(byTool, { status: 200, body: { status: 'published', _meta: { cost_usdc: 0.05 } } })
  t.equal(await main.balance(author), 0.4)
  const { body } = await main.ask('GET', '/api/strategies')
  t.match(body, {
    count: 1,
    fork_cost_usdc: 0.03,
    royalty_per_fork_usdc: 0.02,
    publish_cost_usdc: 0.05,
    next_cursor: null,
    strategies: [{ id, agent_name: null, tool: 'price_feed', fork_count: 0, tx_hash: null }],
  })
  await main.ask('PATCH', '/api/agent/me', { key: author.key, json: { discoverable: true } })
  const named = await main.ask('GET', '/api/strategies')
  t.match(named.body, { strategies: [{ agent_name: 'tester' }] }, 'named once its owner allows it')
  const hidden = String(byTool.body['id'])
  const wrapped = { params: { ...ABOUT, tool: 'hive_read', is_public: false } }
  const { body: third } = await main.call(author, 'strategy_publish', wrapped)
  const get = (strategy: string, key?: string) =>
    main.ask('GET', `/api/strategies/${strategy}`, { key })
  t.match((await get(id)).body, { agent_id: author.id, params: { gwei: 0.01 }, is_public: true })
  t.match(await get(hidden), { status: 404, body: { code: 'strategy_not_found' } })
  t.match(await get(hidden, author.key), { status: 200, body: { is_public: false } })
  t.match((await get(String(third['id']), author.key)).body, {
    tool: 'hive_read',
    params: { gwei: 0.01 },
  })
  t.match(await fork(main, forker, hidden), { status: 404 })
  t.match(await fork(main, author, id), { status: 409, body: { code: 'own_strategy' } })
  t.match(await fork(main, author, 'x'), { status: 404 })
})

t.test('an unknown tool is reported with its field in the request', async (t) => {
  const before = await main.balance(author)
  for (const tool of [5, '', 'no tool', {}]) {
    const refused = await main.ask('POST', '/api/strategies', {
      key: author.key,
      json: { ...ABOUT, tool },
    })
    t.match(refused, {
      status: 400,
      body: { code: 'invalid_input', errors: [{ pointer: '/tool' }] },
    })
    t.notMatch(refused.text, 'strategy_tool')
  }
  t.equal(await main.balance(author), before)
})

t.test('a fork pays two thirds to its author and one to the tools, once', async (t) => {
  const id = await publish()
  const before = await main.balance(author)
  const key = { 'idempotency-key': 'fork-1' }
  const first = await fork(main, forker, id, key)
  t.match(first, { status: 200, body: { forked_from: id, author_agent_id: author.id } })
  t.match(first.body, { params: { gwei: 0.01 }, _meta: { cost_usdc: 0.03 } })
  t.strictSame((await fork(beside, forker, id, key)).body, first.body, 'a repetition')
  t.equal(await main.balance(author), usdc((before + 0.02) * 1e6))
  const moved = await sql`
    select credit, sum(amount_micros)::int as amount from transfers
     where call_id = ${first.body._meta.call_id} group by 1 order by 1`
  t.strictSame(
    [...moved],
    [
      { credit: `agent:${author.id}:promo`, amount: 20_000 },
      { credit: 'platform:tools', amount: 10_000 },
    ],
    'starter credits stay promotional',
  )
  const told = await sql`select data from outbox where agent_id = ${author.id} and type = 'topup'`
  t.match([...told], [{ data: { source: 'strategy_fork', amount_usdc: 0.02 } }])
  const mine = await main.ask('GET', `/api/strategies/${String(first.body['fork_id'])}`, {
    key: forker.key,
  })
  t.match(mine.body, { forked_from: id, is_public: false, agent_id: forker.id })
})

t.test('a fork paid on a chain settles before its author gets the share', async (t) => {
  const [id, poor] = [await publish(), await main.onboard(0)]
  const payer = await till.createPayer(1_000_000n)
  const paid = async (path: string, price: bigint, json = {}) => {
    const headers = await paymentSignatureHeader(payer, till, price)
    const answer = await main.ask('POST', path, { key: poor.key, json, headers })
    t.equal(answer.status, 200, answer.text)
    return decodePaymentResponse(answer.headers['payment-response'])
  }
  const call = (tool: string, price: bigint, json = {}) =>
    paid('/api/refuel', price, { tool, ...json })
  t.match(await call('hive_trending', 5_000n), { transaction: '' }, 'what is all ours runs first')
  const before = await main.balance(author)
  for (const told of [
    await call('strategy_fork', 30_000n, { strategy_id: id }),
    await paid(`/api/strategies/${id}/fork`, 30_000n),
  ])
    t.match(told, { success: true, transaction: /^0x[0-9a-f]{64}$/ })
  t.equal(await main.balance(author), usdc((before + 0.04) * 1e6))
  const [row] = await sql<{ n: number }[]>`
    select count(*)::int as n from transfers where kind = 'share' and credit = ${`agent:${author.id}:cash`}`
  t.equal(row?.n, 2, 'and it is cash')

  const mixed = await main.onboard(0.06)
  await paid(`/api/strategies/${await publish(ABOUT, mixed)}/fork`, 30_000n)
  t.equal(await main.balance(mixed), 0.03)
  const { body } = await fork(main, mixed, id)
  const shared = await sql`
    select credit, amount_micros::int as amount from transfers
     where call_id = ${body._meta.call_id} and kind = 'share'`
  t.strictSame([...shared], [{ credit: `agent:${author.id}:cash`, amount: 20_000 }], 'cash first')
})

t.test('every fork pays its author once, on two nodes and through a crash', async (t) => {
  const id = await publish()
  const before = await main.balance(author)
  const doomed = await spawnSecondNode(t, main)
  const guests = await Promise.all(Array.from({ length: 4 }, () => main.onboard()))
  const nodes = [main, beside, doomed]
  const forks = guests.flatMap((guest) =>
    Array.from({ length: 3 }, (_, at) =>
      fork(nodes[at] as TestStation, guest, id).catch(() => null),
    ),
  )
  await Promise.race(forks.filter((_, at) => at % 3 === 2))
  await doomed.end('SIGKILL')
  const answers = (await Promise.all(forks)).filter((answer) => answer !== null)
  const [kept] = await sql<{ forks: number }[]>`
    select count(*)::int as forks from strategy_forks where strategy_id = ${id}`
  const count = kept?.forks ?? 0
  t.ok(count >= (countReplies(answers)['200'] ?? 0) && count >= 8, `${count} forks`)
  t.equal(await main.balance(author), usdc((before + count * 0.02) * 1e6))
  const { body } = await main.ask('GET', `/api/strategies/${id}`)
  t.match(body, { fork_count: count, royalty_earned_usdc: usdc(count * 20_000) })
  await main.verify()
})

t.test('a transaction is a proof if it is on the chain and succeeded', async (t) => {
  const good = await mined()
  const id = await publish({ ...ABOUT, chain: 'base', tx_hash: good })
  t.match((await main.ask('GET', `/api/strategies/${id}`)).body, {
    tx_hash: good,
    tx_verified: true,
    explorer_url: `https://basescan.org/tx/${good}`,
  })
  const asked = (fields: object) => main.call(author, 'strategy_publish', { ...ABOUT, ...fields })
  const before = await main.balance(author)
  const missing = `0x${'1'.repeat(64)}`
  t.match(await asked({ chain: 'base', tx_hash: missing }), {
    status: 422,
    body: { code: 'proof_invalid' },
  })
  t.match(await asked({ tx_hash: missing }), { status: 400 })
  t.equal(await main.balance(author), before)
  t.match((await asked({ chain: 'solana', tx_hash: missing })).body, { tx_verified: false })
})

/** A transaction that the local chain has in a block. */
async function mined(): Promise<string> {
  const latest = await base.client.getBlockNumber()
  for (let number = latest; number >= 0n; number -= 1n) {
    const { transactions } = await base.client.getBlock({ blockNumber: number })
    if (transactions[0] !== undefined) return transactions[0]
  }
  throw new Error('no transaction was mined')
}
