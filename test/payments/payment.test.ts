import t from 'tap'
import { callAdmit, callFail, callSettle } from '../../payments/commands/call.ts'
import {
  paymentDeliver,
  paymentExpire,
  paymentFail,
  type Claim,
  type Claimed,
} from '../../payments/commands/payment.ts'
import {
  paymentLost,
  paymentSettled,
  paymentUndone,
  paymentUnknown,
} from '../../payments/commands/settlement.ts'
import { funds } from '../../payments/commands/funds.ts'
import { balance } from '../../payments/commands/purse.ts'
import { MINUTE } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { settlementStore } from '../../persistence/settlements.ts'
import type { Sql } from '../../persistence/plane.ts'
import { pair, single, soundly } from '../support/nodes.ts'
import {
  about,
  claim,
  claimOf,
  failedOutcome,
  outcomeOf,
  payerOf,
  paymentOf,
  settle,
  settlementOf,
  TIMERS,
} from '../support/payments.ts'
import { admission, codeOf, failure, settlement, testClock, type Node } from '../support/runtime.ts'

const options = { timerCommands: TIMERS }

async function balanceOf(sql: Sql, account: string): Promise<number> {
  const [row] = await sql<{ sum: bigint }[]>`select coalesce(sum(
    case when credit = ${account} then amount_micros else -amount_micros end), 0)::bigint as sum
    from transfers where credit = ${account} or debit = ${account}`
  return Number(row?.sum)
}
async function stateOf(sql: Sql, one: Pick<Claim, 'payment'>): Promise<string> {
  const found = await settlementStore(sql).find(settlementOf(one.payment))
  return `${found?.money}/${found?.delivery}`
}
const payerState = async (sql: Sql) => {
  const [row] = await sql<{ state: { value: string; context: Record<string, { $n: string }> } }[]>`
    select state from actors where kind = 'payer'`
  return { value: row?.state.value, losses: Number(row?.state.context['losses']?.$n) }
}
const count = (claims: readonly Claimed[], what: string) =>
  claims.filter((one) => one.claim === what).length

t.test('of 64 claims of one payment on two nodes one is new', async (t) => {
  const { sql, one, two } = await pair(t, options)
  const payment = paymentOf(0.03)
  const claims = await Promise.all(
    Array.from({ length: 64 }, (_, index) => claim(index % 2 ? one : two, claimOf(payment))),
  )
  t.equal(count(claims, 'new'), 1)
  const known = claims.filter((found) => found.claim === 'known')
  t.equal(known.length, 63)
  for (const found of known) {
    t.match(found, { refusal: 'payment_in_progress', money: 'claimed', sameRequest: true })
  }
  t.equal(await settlementStore(sql).exposure(), 30_000n)
  await soundly(t, sql)
})

t.test('six authorizations over a balance for five: one is refused', async (t) => {
  const { sql, one, two } = await pair(t, options)
  const claims = Array.from({ length: 6 }, () => claimOf(paymentOf(0.01), { balance: 50_000n }))
  const codes = await Promise.all(
    claims.map((claimed, index) => codeOf(claim(index % 2 ? one : two, claimed))),
  )
  t.strictSame(
    codes.filter((code) => code !== 'ok'),
    ['payment_invalid'],
  )
  await t.rejects(claim(one, claimOf(paymentOf(0.01), { balance: 50_000n })), {
    code: 'payment_invalid',
    details: { reason: 'insufficient_balance' },
  })
  t.match(await settlementStore(sql).counts(), { open: 5, lost: 0, exposure: 50_000n })
  await soundly(t, sql)
})

t.test('over its cap a payment settles first', async (t) => {
  const { one } = await single(t, options)
  const modes = []
  for (let n = 0; n < 4; n += 1) modes.push(await claim(one, claimOf(paymentOf(0.03))))
  t.strictSame(
    modes.map((found) => 'mode' in found && found.mode),
    ['optimistic', 'optimistic', 'optimistic', 'first'],
  )
})

t.test('a call without an agent: claimed, delivered, settled', async (t) => {
  const { sql, one } = await single(t, options)
  const claimed = claimOf(paymentOf(0.03))
  await claim(one, claimed)
  t.match(await about(one, claimed, paymentDeliver, outcomeOf(claimed)), { money: 'due' })
  t.equal(await balanceOf(sql, 'owed:base'), -30_000)
  t.equal(await balanceOf(sql, 'platform:tools'), 24_600)
  await soundly(t, sql)
  await settle(one, claimed)
  t.equal(await balanceOf(sql, 'owed:base'), 0)
  t.equal(await balanceOf(sql, 'world:base'), -30_000)
  t.equal(await stateOf(sql, claimed), 'settled/delivered')
  await soundly(t, sql)
  const again = await claim(one, claimOf(claimed.payment))
  t.match(again, { claim: 'known', refusal: null, callId: claimed.callId, sameRequest: true })
  const other = await claim(one, claimOf(claimed.payment, { fingerprint: 'another' }))
  t.match(other, { claim: 'known', refusal: 'payment_already_used', sameRequest: false })
  t.equal(await codeOf(about(one, claimed, paymentDeliver, outcomeOf(claimed))), 'call_settled')
  await settle(one, claimed)
  t.equal(await balanceOf(sql, 'world:base'), -30_000, 'it settles once')
  t.match(await settlementStore(sql).view(settlementOf(claimed.payment)), {
    money: 'settled',
    price: 30_000n,
    amount: '30000',
    callId: claimed.callId,
    agentId: null,
  })
})

t.test('a failed call gives the payment back: it may be used for something else', async (t) => {
  const { sql, one } = await single(t, options)
  const payment = paymentOf(0.03)
  const first = claimOf(payment)
  await claim(one, first)
  t.match(await about(one, first, paymentFail, failedOutcome(first)), { money: 'released' })
  const second = claimOf(payment, { fingerprint: 'another' })
  t.match(await claim(one, second), { claim: 'new', mode: 'optimistic' })
  t.equal(await codeOf(about(one, first, paymentDeliver, outcomeOf(first))), 'call_settled')
  await about(one, second, paymentDeliver, outcomeOf(second))
  await settle(one, second)
  await soundly(t, sql)
})

t.test('a claim of a dead process is released by its timer', async (t) => {
  const clock = testClock()
  const { sql, one } = await single(t, { ...options, clock })
  const claimed = claimOf(paymentOf(0.03), { expiresAt: clock.now() + MINUTE })
  await claim(one, claimed)
  clock.pass(MINUTE + 1)
  await one.alarms.sweep()
  t.equal(await stateOf(sql, claimed), 'released/waiting')
  const late = about(one, claimed, paymentDeliver, outcomeOf(claimed))
  t.equal(await codeOf(late), 'call_settled')
  t.equal(await settlementStore(sql).exposure(), 0n)
  await soundly(t, sql)
})

/** An agent's call that another rail pays: held, claimed. */
async function keyed(one: Node, usdc: number, more: Partial<Claim> = {}) {
  const agentId = await one.born(0)
  const payment = paymentOf(usdc)
  const ref = { payer: payerOf(payment), settlement: settlementOf(payment), chain: 'base' as const }
  const asked = admission(usdc, { payment: ref, expiresAt: Date.now() + MINUTE })
  const claimed = claimOf(payment, { callId: asked.callId, agentId, ...more })
  await one.ask(agentId, callAdmit, asked)
  const found = await claim(one, claimed)
  const wake = () => one.wake(payerOf(payment), 'payer')
  return { agentId, asked, claimed, found, wake }
}

t.test('a call of an agent: its own commit delivers, the payer is told', async (t) => {
  const { sql, one } = await single(t, options)
  const { agentId, asked, claimed, wake } = await keyed(one, 0.03)
  await one.ask(agentId, callSettle, settlement(asked, agentId))
  t.equal(await stateOf(sql, claimed), 'claimed/waiting')
  await soundly(t, sql)
  await wake()
  t.equal(await stateOf(sql, claimed), 'due/delivered')
  await soundly(t, sql)
  await settle(one, claimed)
  t.equal(await balanceOf(sql, 'owed:base'), 0)
  await soundly(t, sql)
})

t.test('a call of an agent that fails frees the payment; other calls change nothing', async (t) => {
  const { sql, one } = await single(t, options)
  const { agentId, asked, claimed, wake } = await keyed(one, 0.03)
  const second = admission(0.03, { payment: asked.payment, expiresAt: Date.now() + MINUTE })
  await one.ask(agentId, callAdmit, second)
  const refused = await claim(one, { ...claimed, callId: second.callId })
  t.match(refused, { claim: 'known', refusal: 'payment_in_progress' })
  await one.ask(agentId, callFail, failure(second, agentId))
  await wake()
  t.equal(await stateOf(sql, claimed), 'claimed/waiting', 'only the runner lets it go')
  await one.ask(agentId, callFail, failure(asked, agentId))
  await wake()
  t.equal(await stateOf(sql, claimed), 'released/waiting')
  await soundly(t, sql)
})

for (const order of ['settled, then failed', 'failed, then settled']) {
  t.test(`an agent is credited for a call that failed: ${order}`, async (t) => {
    const { sql, one } = await single(t, options)
    const { agentId, asked, claimed, found, wake } = await keyed(one, 0.03, { mode: 'first' })
    t.match(found, { mode: 'first' })
    if (order === 'settled, then failed') await settle(one, claimed)
    await one.ask(agentId, callFail, failure(asked, agentId))
    await wake()
    if (order === 'failed, then settled') await settle(one, claimed)
    t.equal(await stateOf(sql, claimed), 'settled/failed')
    await soundly(t, sql)
    t.match(await one.ask(agentId, balance, {}), { cash: 30_000n, promo: 0n })
    t.equal(await balanceOf(sql, 'owed:base'), 0)
    t.match(await claim(one, { ...claimed, callId: asked.callId }), { refusal: 'payment_credited' })
    await soundly(t, sql)
  })
}

t.test('a result that comes after the payment was given up is a loss', async (t) => {
  const clock = testClock()
  const { sql, one } = await single(t, { ...options, clock })
  const { agentId, asked, claimed, wake } = await keyed(one, 0.03)
  const { callId } = claimed
  await about(one, claimed, paymentExpire, { callId })
  t.equal(await stateOf(sql, claimed), 'released/waiting')
  await one.ask(agentId, callSettle, settlement(asked, agentId))
  await soundly(t, sql)
  await wake()
  t.equal(await stateOf(sql, claimed), 'lost/delivered')
  t.strictSame(await payerState(sql), { value: 'blocked', losses: 30_000 })
  await soundly(t, sql)
})

t.test('a loss is the treasury’s, and is undone if the money comes after all', async (t) => {
  const { sql, one } = await single(t, options)
  const claimed = claimOf(paymentOf(0.03))
  await claim(one, claimed)
  await about(one, claimed, paymentDeliver, outcomeOf(claimed))
  await about(one, claimed, paymentUnknown, {})
  await about(one, claimed, paymentLost, { lookAt: Date.now() + MINUTE })
  t.equal(await balanceOf(sql, 'treasury:fees'), 5_400 - 30_000)
  t.strictSame(await payerState(sql), { value: 'blocked', losses: 30_000 })
  t.match(await settlementStore(sql).counts(), { lost: 1, lostValue: 30_000n, exposure: 0n })
  await soundly(t, sql)
  t.match(await claim(one, claimOf(paymentOf(0.01))), { mode: 'first' }, 'blocked for good')
  await about(one, claimed, paymentSettled, { tx: '0x1', logIndex: 0, block: 5n })
  t.equal(await balanceOf(sql, 'treasury:fees'), 5_400)
  await soundly(t, sql)
})

t.test('what settled undelivered runs again, one of 64 at a time', async (t) => {
  const { sql, one, two } = await pair(t, options)
  const first = claimOf(paymentOf(0.03), { mode: 'first' })
  await claim(one, first)
  await settle(one, first)
  await soundly(t, sql)
  await about(one, first, paymentFail, failedOutcome(first))
  const reruns = Array.from({ length: 64 }, () => claimOf(first.payment))
  const found = await Promise.all(reruns.map((rerun, n) => claim(n % 2 ? one : two, rerun)))
  t.equal(count(found, 'prepaid'), 1)
  t.equal(count(found, 'known'), 63)
  const runner = reruns[found.findIndex((one) => one.claim === 'prepaid')] as Claim
  await about(two, runner, paymentDeliver, outcomeOf(runner))
  t.equal(await balanceOf(sql, 'owed:base'), 0)
  t.equal(await stateOf(sql, first), 'settled/delivered')
  await soundly(t, sql)
})

t.test('a top-up is credited in the commit that settles it', async (t) => {
  const { sql, one } = await single(t, options)
  const agentId = await one.born(0)
  const purpose = { kind: 'topup', agentId } as const
  const claimed = claimOf(paymentOf(2), { purpose, agentId })
  t.match(await claim(one, claimed), { mode: 'first' })
  await settle(one, claimed)
  await soundly(t, sql)
  t.match(await one.ask(agentId, balance, {}), { cash: 2_000_000n, promo: 500_000n })
  t.equal(await stateOf(sql, claimed), 'settled/delivered')
  await soundly(t, sql)
})

t.test('one movement on a chain settles one payment (I7)', async (t) => {
  const { sql, one } = await single(t, options)
  const [first, second] = [claimOf(paymentOf(0.01)), claimOf(paymentOf(0.01))]
  for (const claimed of [first, second]) {
    await claim(one, claimed)
    await about(one, claimed, paymentDeliver, outcomeOf(claimed))
  }
  await settle(one, first, '0xsame')
  const stolen = await settle(one, second, '0xsame').catch((error: unknown) => error)
  t.ok(stolen instanceof Error && !(stolen instanceof ServiceError), String(stolen))
  t.equal(await stateOf(sql, second), 'submitted/delivered')
  await soundly(t, sql)
})

t.test('the proof is kept for each claim, and the call where it belongs', async (t) => {
  const { sql, one } = await single(t, options)
  const claimed = claimOf(paymentOf(0.03))
  await claim(one, claimed)
  await about(one, claimed, paymentDeliver, outcomeOf(claimed))
  const proof = await settlementStore(sql).proof(settlementOf(claimed.payment))
  t.equal(proof?.fromBlock, 36n, 'a reorganisation may put it below the block of its balance')
  t.match(proof?.payment, claimed.payment.nonce)
  await t.rejects(sql`update settlements set payment = ''`, /append-only/)
  const [row] = await sql`select owner, cost_micros from calls`
  t.match(row, { owner: payerOf(claimed.payment), cost_micros: 30_000n })
})

t.test(
  'what a failed call was credited is taken back when the chain undoes its payment',
  async (t) => {
    const { sql, one } = await single(t, { timerCommands: TIMERS })
    const agentId = await one.born(0)
    const claimed = claimOf(paymentOf(0.03), { mode: 'first', agentId })
    await claim(one, claimed)
    await settle(one, claimed, '0xaa')
    await about(one, claimed, paymentFail, { ...failedOutcome(claimed), row: null })
    t.equal((await one.ask(agentId, funds, {})).cash, 30_000n)
    const [row] = await sql<{ id: string }[]>`select id from unfinal_moves`
    const settlement = settlementOf(claimed.payment)
    const move = {
      id: row?.id ?? '',
      chain: 'base',
      tx: '0xaa',
      logIndex: 0,
      kind: 'settlement',
      ref: settlement,
    }
    await about(one, claimed, paymentUndone, { move })
    t.equal((await one.ask(agentId, funds, {})).cash, 30_000n, 'it may settle again')
    await soundly(t, sql)
    await about(one, claimed, paymentLost, { lookAt: null })
    t.equal((await one.ask(agentId, funds, {})).cash, 0n)
    await soundly(t, sql)
    await settle(one, claimed, '0xbb')
    t.equal((await one.ask(agentId, funds, {})).cash, 30_000n, 'it landed after all')
    await soundly(t, sql)
  },
)

t.test('what an older machine has counted as attempts is no failure in a block', async (t) => {
  const { sql, one } = await single(t, options)
  const claimed = claimOf(paymentOf(0.03))
  await claim(one, claimed)
  const written = async (version: number) => {
    await sql`
      update actors set machine_version = ${version},
             state = jsonb_set(state, '{context,attempts}', '7') where kind = 'settlement'`
    const id = settlementOf(claimed.payment)
    const [proven] = await settlementStore(sql).proven([id])
    return [(await settlementStore(sql).find(id))?.attempts, proven?.attempts]
  }
  t.strictSame(await written(2), [0, 0])
  t.strictSame(await written(3), [7, 7])
})
