import t from 'tap'
import { createDatabaseAdjustedClock, HOUR } from '../../../core/clock.ts'
import {
  createAgentBackpack,
  createBackpackBoundKey,
} from '../../support/agents/test-backpack-bound-keys.ts'
import { countReplies } from '../../support/http/test-http-client.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

/** Task passes over HTTP: buying one, calls that it pays, and what its owner sees of it. */

const TOOL = 'strategy_publish'
const INPUT = { title: 'A strategy', description: 'It works.', strategy_tool: 'price_feed' }
const clock = createDatabaseAdjustedClock()
let later = 0
const main = await startInProcessTestStation(
  t,
  { STARTER_CREDITS_USDC: '6', PROMO_TRANSFERABLE: 'true' },
  { clock: { ...clock, now: () => clock.now() + later } },
)

const buy = ({ key }: TestAgent, pass: unknown, headers: Record<string, string> = {}) =>
  main.ask('POST', '/api/task/passes/buy', { key, json: { pass }, headers })
const call = (agent: TestAgent, headers: Record<string, string> = {}) =>
  main.call(agent, TOOL, INPUT, headers)
const passesOf = async ({ key }: TestAgent) =>
  (await main.ask('GET', '/api/credits/balance', { key })).body['passes']
const quote = async ({ key }: TestAgent, tool: string, fields: object) =>
  (await main.ask('POST', '/api/quote', { key, json: { tool, ...fields } })).body

t.test('the catalogue has three passes, each with the tools that it pays', async (t) => {
  const { status, body } = await main.ask('GET', '/api/task/passes/catalog')
  t.equal(status, 200)
  t.match(body, {
    count: 3,
    passes: [
      {
        pass: 'micro',
        price_usdc: 1.5,
        calls: 50,
        price_per_call_usdc: 0.03,
        expires_after_seconds: null,
      },
      {
        pass: 'hour',
        price_usdc: 2.5,
        calls: 100,
        price_per_call_usdc: 0.025,
        expires_after_seconds: 3_600,
      },
      {
        pass: 'day',
        price_usdc: 8,
        calls: 500,
        price_per_call_usdc: 0.016,
        expires_after_seconds: 86_400,
      },
    ],
  })
  const [micro = [], , day = []] = (body['passes'] as { tools: string[] }[]).map(
    ({ tools }) => tools,
  )
  t.ok(micro.includes('code_sandbox') && !micro.includes('swarm_broadcast'))
  t.ok(day.includes('swarm_broadcast'))
  for (const tool of ['strategy_fork', 'hive_trending', 'hive_consensus', 'hive_watch', 'crew'])
    t.notOk(day.includes(tool), tool)
  const items = (await main.ask('GET', '/api/store')).body['items'] as { kind: string }[]
  const sold = items.filter(({ kind }) => kind === 'pass')
  t.match(sold[0], { id: 'pass:micro', price_usdc: 1.5, request: { body: { pass: 'micro' } } })
  t.equal(sold.length, 3)
})

t.test('a pass pays calls of two tasks at once; budgets count the list price', async (t) => {
  const ann = await main.onboard()
  const bought = await buy(ann, 'micro')
  t.equal(bought.status, 201)
  const passId = bought.body['pass_id']
  t.match(bought.body, {
    calls: 50,
    calls_left: 50,
    price_usdc: 1.5,
    promo_usdc: 1.5,
    cash_usdc: 0,
    balance_usdc: 4.5,
  })
  t.match(await quote(ann, TOOL, INPUT), {
    price_usdc: 0.05,
    rail: 'pass',
    pass: { pass_id: passId, calls_left: 50 },
  })
  t.match(await quote(ann, 'hive_trending', {}), { rail: 'credits', pass: null })
  const tasks = await Promise.all(
    ['one', 'two'].map(async (name) => {
      const json = { name, budget_usdc: 0.1 }
      return (await main.ask('POST', '/api/task/start', { key: ann.key, json })).body['task_id']
    }),
  )
  const answers = await Promise.all(
    [...tasks, ...tasks, ...tasks].map((id) => call(ann, { 'x-task-id': id })),
  )
  t.strictSame(countReplies(answers), { 200: 4, '402 task_budget_exceeded': 2 })
  const [first] = answers
  t.match(first?.body['_meta'], {
    ...{ rail: 'pass', cost_usdc: 0.05, balance_usdc: 4.5 },
    pass: { pass_id: passId, price_per_call_usdc: 0.03 },
  })
  for (const id of tasks) {
    const { body } = await main.ask('GET', `/api/task/${id}`, { key: ann.key })
    t.match(body, { spent_usdc: 0.1, remaining_usdc: 0, calls: 2 })
  }
  t.match(await passesOf(ann), [{ pass_id: passId, calls_left: 46 }])
  t.equal(await main.balance(ann), 4.5)
  const { movements } = (await main.ask('GET', '/api/agent/statement', { key: ann.key })).body
  t.match(movements, [
    ...Array.from({ length: 4 }, () => ({
      kind: 'pass_call',
      tool: TOOL,
      amount_usdc: 0,
      rail: 'pass',
      reference: passId,
    })),
    { kind: 'pass', amount_usdc: -1.5, reference: passId, balance: { total_usdc: 4.5 } },
    { kind: 'starter_credits' },
  ])
})

t.test('a failed call returns its slot', async (t) => {
  const ann = await main.onboard()
  await buy(ann, 'micro')
  const failed = await main.call(ann, 'onchain_insight', { query: 'AERO' })
  t.match(failed.body, { refunded: true })
  t.match(await passesOf(ann), [{ calls_left: 50 }])
})

t.test('64 calls race for the 50 slots of a pass', async (t) => {
  const ann = await main.onboard(1.5)
  await buy(ann, 'micro')
  const answers = await Promise.all(Array.from({ length: 64 }, () => call(ann)))
  t.strictSame(countReplies(answers), { 200: 50, '402 payment_required': 14 })
  t.strictSame(await passesOf(ann), [])
})

t.test('a repeated purchase buys once', async (t) => {
  const ann = await main.onboard()
  const key = { 'idempotency-key': 'pass-1' }
  const [one, two] = [await buy(ann, 'micro', key), await buy(ann, 'micro', key)]
  t.equal(two.body['pass_id'], one.body['pass_id'])
  t.equal(await main.balance(ann), 4.5)
})

t.test('a purchase that cannot be', async (t) => {
  const ann = await main.onboard()
  for (const bad of ['week', '', 1, null, ['micro']]) t.equal((await buy(ann, bad)).status, 400)
  t.equal((await main.ask('POST', '/api/task/passes/buy', { json: { pass: 'micro' } })).status, 401)
  const poor = await buy(ann, 'day')
  t.equal(poor.status, 402)
  t.match(poor.body, { code: 'payment_required', needed_usdc: 8, balance_usdc: 6 })
  t.strictSame(await passesOf(ann), [])
})

t.test('a bound key buys where its Backpack allows purchases, within its fuse', async (t) => {
  const ann = await main.onboard()
  const without = await createBackpackBoundKey(main, ann, await createAgentBackpack(main, ann))
  t.match((await buy(without, 'micro')).body, { code: 'TOOL_NOT_ALLOWED' })
  const rules = { tools: ['purchase', TOOL], fuse: { per_day_usdc: 1.54 } }
  const id = await createAgentBackpack(main, ann, rules)
  const bound = await createBackpackBoundKey(main, ann, id)
  t.equal((await buy(bound, 'micro')).status, 201)
  t.match((await call(bound)).body, { code: 'FUSE_TRIPPED' }, 'the fuse counts 1.50 and 0.05')
  t.equal((await call(ann)).body['_meta'].rail, 'pass', 'the pass serves the whole agent')
  const { body } = await main.ask('GET', `/api/backpack/${id}/state`, { key: ann.key })
  t.match(body, { spent_total_usdc: 1.5 })
})

t.test('an expired pass pays nothing', async (t) => {
  const ann = await main.onboard()
  await buy(ann, 'hour')
  t.equal((await call(ann)).body['_meta'].rail, 'pass')
  later += HOUR
  t.match(await quote(ann, TOOL, INPUT), { rail: 'credits', pass: null })
  t.match((await call(ann)).body['_meta'], { rail: 'credits', cost_usdc: 0.05, balance_usdc: 3.45 })
  t.strictSame(await passesOf(ann), [])
})

t.test('the creator of an agent gets half of the fee of its calls, also of a pass', async (t) => {
  const ann = await main.onboard()
  const prompt = 'An agent that watches gas prices'
  const forged = await main.call(ann, 'genesis_forge', { prompt })
  const { onboard } = forged.body as unknown as { onboard: { body: object } }
  const { body } = await main.ask('POST', '/api/onboard', { json: onboard.body })
  const child = { id: body.agent_id, key: body.api_key }
  await call(child)
  await buy(child, 'micro')
  await call(child)
  const earned = await main.ask('GET', '/api/referrals/me', { key: ann.key })
  // Half of 0.009 and of 0.0054.
  t.match(earned.body, { children: 1, genesis_shares_usdc: 0.0072, paid_now_usdc: 0.0072 })
  t.equal(await main.balance(ann), 5.0072)
  const stranger = { name: 'stranger', source: `genesis:${ann.id}` }
  t.equal((await main.ask('POST', '/api/onboard', { json: stranger })).status, 201)
})

t.test('the ledger is sound', async () => main.verify())
