import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { STRANGE_AMOUNTS } from '../../support/http/strange-amounts.ts'
import { parseGrantArguments } from '../../../app/cli/operator/cli-grant-credits.ts'
import { stringifyWithBigints } from '../../../core/json/bigint.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc, toUsdc } from '../../../core/money.ts'
import { MIN_BOUNTY_REWARD } from '../../../domain/pricing.ts'
import { createRoyaltyStore } from '../../../persistence/hive/royalty-store.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import type { InProcessStation } from '../../support/station/start-test-station.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

const AGENTS = 8
const STRATEGY = { title: 'x', description: 'x', params: {} }
const get = (node: TestStation, { key }: TestAgent, path: string) => node.ask('GET', path, { key })
const post = (node: TestStation, { key }: TestAgent, path: string, json: object = {}) =>
  node.ask('POST', path, { key, json })

/** Promotional credits and cash. */
async function purse(node: TestStation, guest: TestAgent): Promise<[number, number]> {
  const { body } = await get(node, guest, '/api/credits/balance')
  return [Number(body['promo_usdc']), Number(body['cash_usdc'])]
}

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

/** Movements of an agent's calls, by account. */
async function movedBy(
  { sql }: InProcessStation,
  { id }: TestAgent,
): Promise<Record<string, number>> {
  const rows = await sql<{ credit: string; amount: bigint }[]>`
    select credit, sum(amount_micros)::bigint as amount from transfers
     where owner = ${id} and kind in ('charge', 'fee', 'share') group by 1`
  return Object.fromEntries(rows.map(({ credit, amount }) => [credit, Number(amount)]))
}

t.test('with PROMO_TRANSFERABLE=false', async (t) => {
  const main = await startInProcessTestStation(t, { PROMO_TRANSFERABLE: 'false' })

  t.test('starter credits of referred agents give a referrer nothing', async (t) => {
    const [ann, friend] = [await main.onboard(), await main.onboard()]
    const made = await post(main, ann, '/api/referrals/create')
    for (let at = 0; at < AGENTS; at += 1) {
      const guest = await brought(main, String(made.body['referral_code']))
      // Its starter credits of 0.50.
      for (let call = 0; call < 10; call += 1) {
        t.equal((await main.call(guest, 'strategy_publish', STRATEGY)).status, 200)
      }
      t.strictSame(await purse(main, guest), [0, 0])
    }
    const { body } = await get(main, ann, '/api/referrals/me')
    t.match(body, { referred: AGENTS, activated: 0, shares_usdc: 0, paid_out_usdc: 0 })
    t.strictSame(await purse(main, ann), [0.5, 0])
    const gift = { to_agent_id: friend.id, amount_usdc: 0.01 }
    t.match(await post(main, ann, '/api/agent/send', gift), {
      status: 403,
      body: { code: 'promo_not_transferable' },
    })
  })

  t.test('starter credits of many agents cannot be collected by bounties', async (t) => {
    const collector = await main.onboard()
    for (let at = 0; at < 28; at += 1) {
      const guest = await main.onboard()
      const asks = { title: 'x', description: 'anything', domain: 'x' }
      const refused = await post(main, guest, '/api/bounties', {
        ...asks,
        reward_usdc: at % 2 === 0 ? 0.5 : toUsdc(MIN_BOUNTY_REWARD),
      })
      t.match(refused, { status: 402, body: { code: 'cash_required' } })
      t.notOk('remedy' in refused.body, 'a grant would not help')
      const id = refused.body['bounty_id']
      if (typeof id === 'string')
        await post(main, collector, `/api/bounties/${id}/claim`, { content: 'anything' })
    }
    t.strictSame(await purse(main, collector), [0.5, 0])
  })

  t.test('a bounty is paid from cash, and a rejection names the missing amount', async (t) => {
    const [rich, claimer] = [await main.onboard(), await main.onboard()]
    await deposit(main, rich, 1)
    t.strictSame(await purse(main, rich), [0.75, 1])
    const asks = { title: 'x', description: 'anything', domain: 'x' }
    const poor = await post(main, rich, '/api/bounties', { ...asks, reward_usdc: 1.2 })
    t.match(poor, { status: 402, body: { code: 'cash_required', cash_usdc: 1 } })
    t.match(poor.body, { promo_usdc: 0.75, needed_usdc: 1.2, missing_usdc: 0.2 })
    t.match(String(poor.body['detail']), /promotional credits/)
    const made = await post(main, rich, '/api/bounties', { ...asks, reward_usdc: 0.6 })
    t.match(made, { status: 201, body: { promo_usdc: 0, reward_usdc: 0.6 } })
    const path = `/api/bounties/${String(made.body['bounty_id'])}/claim`
    t.equal((await post(main, claimer, path, { content: 'anything' })).status, 200)
    t.strictSame(await purse(main, rich), [0.75, 0.4])
    t.strictSame(await purse(main, claimer), [0.5, 0.6])
  })

  t.test('a referrer earns from cash only, from the first deposit on', async (t) => {
    const ann = await main.onboard()
    const code = (await post(main, ann, '/api/referrals/create')).body['referral_code']
    const guest = await brought(main, String(code))
    t.equal((await main.call(guest, 'strategy_publish', STRATEGY)).status, 200)
    t.strictSame(await movedBy(main, guest), { 'platform:tools': 41_000, 'treasury:fees': 9_000 })
    await deposit(main, guest, 1)
    t.strictSame(await purse(main, guest), [0.7, 1])
    t.match((await get(main, ann, '/api/referrals/me')).body, { activated: 1, shares_usdc: 0 })
    for (let call = 0; call < 16; call += 1)
      t.equal((await main.call(guest, 'strategy_publish', STRATEGY)).status, 200)
    // 0.70 of promotional credits and 0.10 of cash.
    t.strictSame(await purse(main, guest), [0, 0.9])
    t.match((await get(main, ann, '/api/referrals/me')).body, {
      shares_usdc: 0.001,
      shares_promo_usdc: 0,
    })
    t.strictSame(await purse(main, ann), [0.71, 0.001], 'and the reward, paid by the grants')
    t.strictSame(await movedBy(main, guest), {
      'platform:tools': 17 * 41_000 - 8_000,
      'treasury:fees': 17 * 9_000,
      'grants:promo': 7_000,
      [`referral:${ann.id}`]: 1_000,
    })
  })

  t.test('the author of a fork receives the cash part only', async (t) => {
    const [author, forker] = [await main.onboard(), await main.onboard()]
    const { body: made } = await post(main, author, '/api/strategies', STRATEGY)
    const fork = () => post(main, forker, `/api/strategies/${String(made['id'])}/fork`)
    const told = async () => {
      const rows = await main.sql<{ usdc: number }[]>`
        select (data->>'amount_usdc')::float8 as usdc from outbox
         where agent_id = ${author.id} and data->>'source' = 'strategy_fork' order by id`
      return rows.map(({ usdc }) => usdc)
    }
    t.equal((await fork()).status, 200)
    t.strictSame(await purse(main, author), [0.45, 0], 'starter credits give an author nothing')
    t.strictSame(await told(), [])
    await deposit(main, forker, 1)
    // 0.72 of promotional credits: 24 forks, and one of cash.
    for (let at = 0; at < 25; at += 1) t.equal((await fork()).status, 200)
    t.strictSame(await purse(main, author), [0.45, 0.02])
    t.strictSame(await told(), [0.02])
    const { body } = await main.ask('GET', `/api/strategies/${String(made['id'])}`)
    t.match(body, { fork_count: 26, royalty_earned_usdc: 0.02 })
  })

  t.test('a read of the Hive earns cash if it was paid in cash, and nothing else', async (t) => {
    const [author, reader] = [await main.onboard(), await main.onboard()]
    const write = async (n: number) => {
      const content = `Blobfish fact ${n}: they live deep and look better under pressure than above it.`
      t.equal((await main.call(author, 'hive_write', { content })).status, 200)
    }
    const read = (n: number) =>
      main.call(reader, 'hive_read', { query: `blobfish fact ${n}`, limit: 1 })
    const owed = () => main.sql`select promo from royalties where author = ${author.id}`
    for (let n = 0; n < 14; n += 1) await write(n)
    // Ten free ones, and two that starter credits pay.
    for (let n = 0; n < 12; n += 1) t.equal((await read(n)).status, 200)
    t.strictSame([...(await owed())], [])
    for (let at = 0; at < 9; at += 1) await main.call(reader, 'strategy_publish', STRATEGY)
    for (let at = 0; at < 8; at += 1) await main.call(reader, 'hive_trending')
    t.strictSame(await purse(main, reader), [0, 0])
    const rich = await main.onboard()
    await deposit(main, rich, 1)
    const cash = { to_agent_id: reader.id, amount_usdc: 0.1 }
    t.equal((await post(main, rich, '/api/agent/send', cash)).status, 200)
    const { body } = await read(13)
    t.match(body, { entries: { length: 1 }, _meta: { cost_usdc: 0.005 } })
    t.match([...(await owed())], [{ promo: false }])

    // Fees paid with starter credits return to the grants.
    const store = createRoyaltyStore(main.sql)
    await main.sql`update royalty_pool set fed_until = now() - interval '1 day'`
    await store.pay(new Date(Date.now() + 60_000), false)
    const [pool] =
      await main.sql`select promo_micros::int as promo, cash_micros::int as cash from royalty_pool`
    t.equal(pool?.['promo'], 0)
    const [back] = await main.sql`
      select sum(amount_micros)::int as amount from transfers
       where kind = 'royalty_feed' and credit = 'grants:promo'`
    t.ok(Number(back?.['amount']) > 0)
  })

  await main.verify()
})

t.test('a transfer that was once permitted stays valid after the setting changes', async (t) => {
  const on = await startInProcessTestStation(t, { PROMO_TRANSFERABLE: 'true' })
  const [ann, bob] = [await on.onboard(), await on.onboard()]
  const asks = { title: 'x', description: 'anything', domain: 'x', reward_usdc: 0.2 }
  const made = await post(on, ann, '/api/bounties', asks)
  t.match(made, { status: 201, body: { promo_usdc: 0.2 } })
  const gift = { to_agent_id: bob.id, amount_usdc: 0.1 }
  t.equal((await post(on, ann, '/api/agent/send', gift)).status, 200)
  const off = await spawnSecondNode(t, on, { PROMO_TRANSFERABLE: 'false' })
  t.equal((await post(off, ann, '/api/agent/send', gift)).status, 403)
  t.equal((await post(off, ann, '/api/bounties', asks)).status, 402)
  const path = `/api/bounties/${String(made.body['bounty_id'])}/claim`
  t.match(await post(off, bob, path, { content: 'anything' }), {
    status: 200,
    body: { paid_usdc: 0.2, promo_usdc: 0.2 },
  })
  t.strictSame(await purse(off, bob), [0.8, 0])
  await on.verify()
})

t.test('the operator grants promotional credits on a live station', async (t) => {
  const main = await startInProcessTestStation(t, { PROMO_TRANSFERABLE: 'false' })
  const ann = await main.onboard()
  const env = {
    PATH: process.env['PATH'],
    NODE_ENV: 'test',
    DATABASE_URL: main.database.settings.databaseUrl,
    DATA_DIR: createStationDataDir(t),
    MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
  }
  const gas = (...args: string[]) =>
    promisify(execFile)(process.execPath, [...serviceProgramArgs('cli'), ...args], { env }).then(
      ({ stdout }) => ({ code: 0, said: stdout }),
      (error: { code: number; stderr: string }) => ({ code: error.code, said: error.stderr }),
    )
  const id = newUuidV7(Date.now())
  const grant = (...more: string[]) =>
    gas('grant', ann.id, '2.5', '--note', 'pilot of team A', '--id', id, ...more)

  for (let call = 0; call < 10; call += 1) await main.call(ann, 'strategy_publish', STRATEGY)
  t.equal((await main.call(ann, 'strategy_publish', STRATEGY)).status, 402)
  const both = await Promise.all([grant(), grant()])
  t.strictSame(
    both.map(({ code }) => code),
    [0, 0],
  )
  t.equal((await main.call(ann, 'strategy_publish', STRATEGY)).status, 200, 'seen at once')
  t.strictSame(await purse(main, ann), [2.45, 0])
  const again = await grant()
  t.match(again, { code: 0, said: /given before/ })
  t.strictSame(await purse(main, ann), [2.45, 0], 'once')
  const told = await main.sql`
    select data from outbox where agent_id = ${ann.id} and data->>'source' = 'grant'`
  t.match([...told], [{ data: { amount_usdc: 2.5, grant_id: id, note: 'pilot of team A' } }])
  const audit = await main.sql`
    select g.amount_micros, g.note, g.granted_by, t.memo, t.debit, t.credit
      from operator_grants g join transfers t on t.call_id = g.grant_id`
  t.match(
    [...audit],
    [
      {
        amount_micros: 2_500_000n,
        note: 'pilot of team A',
        granted_by: /^gas grant \(.+\)$/,
        memo: 'pilot of team A',
        debit: 'grants:promo',
        credit: `agent:${ann.id}:promo`,
      },
    ],
  )

  const note = ['--note', 'x'] as const
  const wrong = await Promise.all([
    gas('grant', ann.id, '2.5', '--note', 'another', '--id', id),
    gas('grant', newUuidV7(Date.now()), '1', ...note),
    gas('grant', ann.id, '0', ...note),
    gas('grant', ann.id),
  ])
  t.match(wrong[0], { code: 1, said: /given before: 2.500000 USDC/ })
  t.match(wrong[1], { code: 1, said: /there is no agent/ })
  t.match(wrong[2], { code: 2, said: /must be an amount/ })
  t.match(wrong[3], { code: 2, said: /gas grant <agent_id> <usdc> --note/ })
  const good = { agentId: ann.id, usdc: '1', note: 'x', id: null }
  t.match(parseGrantArguments(good), { amount: 1_000_000n, agentId: ann.id })
  t.match(parseGrantArguments({ ...good, usdc: '1000000' }), { amount: 1_000_000_000_000n })
  t.match(parseGrantArguments({ ...good, usdc: '1,5' }), { amount: 1_500_000n })
  for (const [usdc, value] of [...STRANGE_AMOUNTS, ['0.000000', null] as const]) {
    const parsed = parseGrantArguments({ ...good, usdc })
    if (value !== null) t.match(parsed, { amount: BigInt(Math.round(value * 1e6)) }, usdc)
    else t.match(parsed, /^the amount |must be an amount/, usdc)
  }
  for (const text of ['', ' ', 'x'.repeat(501)])
    t.match(parseGrantArguments({ ...good, note: text }), /--note must say why/)
  t.match(parseGrantArguments({ ...good, agentId: 'x' }), /must be the id of an agent/)
  t.match(parseGrantArguments({ ...good, id: 'x' }), /must be a UUID/)
  t.strictSame(await purse(main, ann), [2.45, 0])
  t.match((await gas('verify')).said, /verified: no difference/)
})
