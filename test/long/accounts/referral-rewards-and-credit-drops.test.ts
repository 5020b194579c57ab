import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { openCreditDrop } from '../../../app/cli/operator/cli-credit-drops.ts'
import { HOUR, MINUTE } from '../../../core/clock.ts'
import { stringifyWithBigints } from '../../../core/json/bigint.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../../core/money.ts'
import {
  getCreditDropCommand,
  openCreditDropCommand,
  redeemCreditDropCommand,
} from '../../../payments/commands/credit-drop-commands.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import { createTestActorNodePair } from '../../support/actors/test-actor-node-pairs.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import { awaitErrorCodeOrOk, createTestClock } from '../../support/actors/test-actor-node.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import type { InProcessStation } from '../../support/station/start-test-station.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

const N = 64
const TOOL = 'hive_trending'
const PRICE = 0.005

const get = (node: TestStation, { key }: TestAgent, path: string) => node.ask('GET', path, { key })
const post = (
  node: TestStation,
  { key }: TestAgent,
  path: string,
  json: object = {},
  headers = {},
) => node.ask('POST', path, { key, json, headers })

const codeFor = async (node: TestStation, guest: TestAgent): Promise<string> =>
  String((await post(node, guest, '/api/referrals/create')).body['referral_code'])

async function brought(node: TestStation, code: string): Promise<TestAgent> {
  const { body } = await node.ask('POST', '/api/onboard', {
    json: { name: 'friend', referral_code: code },
  })
  return { id: body.agent_id, key: body.api_key }
}

/** A deposit as the watcher of the chain books it: the ledger row and the message, in one commit. */
async function deposit({ sql }: InProcessStation, { id }: TestAgent, usdc: number): Promise<void> {
  const [amount, arrival] = [fromUsdc(usdc), newUuidV7(Date.now())]
  const event = { type: 'DEPOSIT', id: arrival, pending: amount, chain: 'base', tx: '0x1' }
  await sql.begin(async (tx) => {
    await tx`insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
      values (${arrival}, ${id}, 'world:base', ${`agent:${id}:pending`}, ${amount}, 'deposit', now())`
    await tx`insert into inbox (receiver, receiver_kind, id, event, at)
      values (${id}, 'agent', ${`deposit:${arrival}`},
              ${stringifyWithBigints({ ...event, source: 'deposit' })}::text::jsonb, now())`
  })
}

t.test('a referral code is created once, and a wrong one is named in the error', async (t) => {
  const main = await startInProcessTestStation(t)
  const ann = await main.onboard()
  t.match((await get(main, ann, '/api/referrals/me')).body, { referral_code: null, referred: 0 })
  const made = await Promise.all(
    Array.from({ length: 8 }, () => post(main, ann, '/api/referrals/create')),
  )
  t.strictSame([...new Set(made.map(({ status }) => status))], [201])
  t.equal(new Set(made.map(({ body }) => body['referral_code'])).size, 1)
  const code = String(made[0]?.body['referral_code'])
  await brought(main, code)
  t.match((await get(main, ann, '/api/referrals/me')).body, {
    referral_code: code,
    referred: 1,
    activated: 0,
    earnings_usdc: 0,
  })
  const before = await main.sql`select from agents`
  const wrong = { name: 'friend', referral_code: 'ref_nobody' }
  const refused = await main.ask('POST', '/api/onboard', { json: wrong })
  t.match(refused, { status: 400, body: { errors: [{ pointer: '/referral_code' }] } })
  t.match(String(refused.body['detail']), /ref_nobody/)
  const bulk = await main.ask('POST', '/api/onboard/bulk', {
    json: { agents: [{ name: 'one', referral_code: code }, wrong] },
  })
  t.match(bulk, { status: 400, body: { errors: [{ pointer: '/agents/1/referral_code' }] } })
  t.equal((await main.sql`select from agents`).count, before.count, 'no agent is created')
})

t.test('a first deposit rewards the referrer once', async (t) => {
  const main = await startInProcessTestStation(t)
  const ann = await main.onboard()
  const bob = await brought(main, await codeFor(main, ann))
  await deposit(main, bob, 0.4)
  t.equal(await main.balance(bob), 0.5, 'less than a dollar waits')
  t.match((await get(main, ann, '/api/referrals/me')).body, { activated: 0 })
  await deposit(main, bob, 4.6)
  t.equal(await main.balance(bob), 6.75, '5 and a quarter of it')
  await deposit(main, bob, 2)
  t.equal(await main.balance(bob), 8.75)
  t.match((await get(main, ann, '/api/referrals/me')).body, {
    activated: 1,
    rewards_usdc: 0.21,
    earnings_usdc: 0.21,
  })
  t.equal(await main.balance(ann), 0.71)
  await main.verify()
})

t.test('the referral share of calls is paid once, even with concurrent requests', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await spawnSecondNode(t, main)
  const ann = await main.onboard()
  const bob = await brought(main, await codeFor(main, ann))
  t.equal((await main.call(bob, TOOL)).status, 200)
  await deposit(main, bob, 1)
  t.equal(await main.balance(bob), 1.75 - PRICE, 'from its first deposit on')
  for (let call = 0; call < 20; call += 1) t.equal((await main.call(bob, TOOL)).status, 200)
  const share = (20 * PRICE) / 100
  const asked = await Promise.all(
    Array.from({ length: N }, (_, at) =>
      get(at % 2 === 0 ? main : beside, ann, '/api/referrals/me'),
    ),
  )
  const paid = asked.map(({ body }) => Number(body['paid_now_usdc'])).filter((usdc) => usdc > 0)
  t.strictSame(paid, [share])
  t.ok(
    asked.every(({ body }) => body['shares_usdc'] === share && body['shares_promo_usdc'] === share),
    'and everybody sees it',
  )
  t.match((await get(main, ann, '/api/credits/balance')).body, {
    promo_usdc: 0.71 + share,
    cash_usdc: 0,
  })
  t.equal((await main.call(bob, TOOL)).status, 200)
  t.match((await get(main, ann, '/api/referrals/me')).body, {
    paid_now_usdc: PRICE / 100,
    paid_out_usdc: Math.round((0.21 + share + PRICE / 100) * 1e6) / 1e6,
    earnings_usdc: Math.round((0.21 + share + PRICE / 100) * 1e6) / 1e6,
  })
  const told = await main.sql`select data from outbox where agent_id = ${ann.id} and type = 'topup'`
  t.equal(told.count, 3, 'the reward, and two shares')
  await main.verify()
})

const redeem = (
  node: TestStation,
  guest: TestAgent,
  code: string,
  headers = {},
): Promise<TestReply> => post(node, guest, '/api/radio-drop/redeem', { code }, headers)

t.test('ten of 64 agents get one slot each', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await spawnSecondNode(t, main)
  t.match((await main.ask('GET', '/api/radio-drop/latest')).body, { active: false, drop: null })
  const [drop] = await openCreditDrop(main.sql)
  const code = drop?.code ?? ''
  t.match(code, /^RADIODROP-[0-9A-Z]{12}$/)
  const latest = async () => (await main.ask('GET', '/api/radio-drop/latest')).body
  t.match(await latest(), {
    active: true,
    drop: { code, slots: 10, slots_left: 10, credits_usdc: 0.1 },
  })
  const guests: TestAgent[] = []
  for (let at = 0; at < 16; at += 1) guests.push(await main.onboard())
  const asked = Array.from({ length: N }, (_, at) =>
    redeem(at % 2 === 0 ? main : beside, guests[Math.floor(at / 4)] as TestAgent, code),
  )
  const answers = await Promise.all(asked)
  const counts = countReplies(answers)
  t.equal(counts['200'], 10)
  t.equal((counts['409 drop_redeemed'] ?? 0) + (counts['409 drop_ended'] ?? 0), N - 10)
  const balances = await Promise.all(guests.map((guest) => main.balance(guest)))
  t.equal(balances.filter((usdc) => usdc === 0.6).length, 10)
  t.equal(balances.filter((usdc) => usdc === 0.5).length, 6)
  t.match(await latest(), { active: false, drop: null })
  t.match(await redeem(main, guests[0] as TestAgent, 'RADIODROP-NONE'), {
    status: 404,
    body: { code: 'drop_not_found' },
  })
  t.equal((await main.ask('POST', '/api/radio-drop/redeem', { json: { code } })).status, 401)
  await main.verify()
})

t.test('a repeated request returns its stored reply, and only to the same agent', async (t) => {
  const main = await startInProcessTestStation(t)
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  const [drop] = await openCreditDrop(main.sql)
  const code = drop?.code ?? ''
  const keyed = { 'idempotency-key': 'same' }
  t.match(await redeem(main, ann, code.toLowerCase(), keyed), {
    status: 200,
    body: { code, credited_usdc: 0.1 },
  })
  t.match(await redeem(main, ann, code.toLowerCase(), keyed), {
    status: 200,
    headers: { 'idempotency-replayed': 'true' },
  })
  t.match(await redeem(main, ann, code), { status: 409, body: { code: 'drop_redeemed' } })
  const hers = await redeem(main, bob, code.toLowerCase(), keyed)
  t.equal(hers.status, 200, 'the same key of another agent is another request')
  t.equal(hers.headers['idempotency-replayed'], undefined)
  t.strictSame([await main.balance(ann), await main.balance(bob)], [0.6, 0.6])
  await main.verify()
})

t.test(
  'a drop ends after two hours by its timer, or by the clock if the timer is late',
  async (t) => {
    const clock = createTestClock()
    const { one, two, sql } = await createTestActorNodePair(t, { clock })
    const [early, late] = [await one.born(0.5), await one.born(0.5)]
    const code = 'RADIODROP-TEST'
    await one.ask(code, openCreditDropCommand, {}, { fresh: true })
    // So far ahead that no alarm rings by itself while this lasts.
    clock.pass(2 * HOUR - MINUTE)
    await two.alarms.sweep()
    t.equal(
      await awaitErrorCodeOrOk(two.ask(code, redeemCreditDropCommand, { agentId: early })),
      'ok',
    )
    clock.pass(MINUTE)
    t.equal(
      await awaitErrorCodeOrOk(two.ask(code, redeemCreditDropCommand, { agentId: late })),
      'drop_ended',
    )
    t.match(await sql`select state->>'value' as value from actors where id = ${code}`, [
      { value: 'open' },
    ])
    await one.alarms.sweep()
    t.match(await sql`select state->>'value' as value from actors where id = ${code}`, [
      { value: 'ended' },
    ])
    t.equal((await sql`select from timers where aggregate_id = ${code}`).count, 0)
    t.match(await two.ask(code, getCreditDropCommand, {}), { open: false, left: 9 })
    t.equal(
      await awaitErrorCodeOrOk(one.ask(code, redeemCreditDropCommand, { agentId: late })),
      'drop_ended',
    )
    t.equal(
      await awaitErrorCodeOrOk(one.ask(code, redeemCreditDropCommand, { agentId: early })),
      'drop_redeemed',
    )
  },
)

t.test('the operator opens and lists drops from the command line', async (t) => {
  const main = await startInProcessTestStation(t)
  const env = {
    PATH: process.env['PATH'],
    NODE_ENV: 'test',
    DATABASE_URL: main.database.settings.databaseUrl,
    DATA_DIR: createStationDataDir(t),
    MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
  }
  const gas = async (...args: string[]) => {
    const run = promisify(execFile)
    const { stdout } = await run(process.execPath, [...serviceProgramArgs('cli'), ...args], { env })
    return stdout
  }
  const opened = await gas('drop', 'open')
  const [code = ''] = /^RADIODROP-\w+/.exec(opened) ?? []
  t.match(opened, /10 of 10 left {2}open until/)
  const ann = await main.onboard()
  t.equal((await redeem(main, ann, code)).status, 200)
  t.match(await gas('drop', 'list'), new RegExp(`^${code} {2}9 of 10 left`))
  await t.rejects(gas('drop', 'close'), { code: 2 })
})
