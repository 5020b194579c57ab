import t, { type Test } from 'tap'
import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import {
  getTaskCommand,
  startTaskCommand,
} from '../../actors/commands/task-session-actor-commands.ts'
import { HOUR } from '../../core/clock.ts'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import { UNLIMITED_API_KEY_SPENDING } from '../../domain/api-key-spending-limits.ts'
import type { TaskPassKind } from '../../domain/prepaid-task-passes.ts'
import type { CallAdmissionRequest } from '../../payments/agent-call-admission-request-types.ts'
import {
  createAgentCommand,
  getAgentBalanceCommand,
} from '../../payments/commands/agent-account-commands.ts'
import {
  admitCallCommand,
  expireCallHoldCommand,
  failCallCommand,
  quoteCallCommand,
  settleCallCommand,
  type CommittedCallInfo,
} from '../../payments/commands/call-commands.ts'
import { admitAndChargeFinishedCallCommand } from '../../payments/commands/admit-and-charge-finished-call-command.ts'
import {
  buyTaskPassCommand,
  expireTaskPassCommand,
} from '../../payments/commands/task-pass-commands.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import {
  assertNoInvariantViolations,
  createTestActorNodePair,
  UNLIMITED_SPENDER,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  awaitErrorCodeOrOk,
  callRowOfAdmission,
  createTestClock,
  failCallInputOfAdmission,
  sampleCallAdmissionRequest,
  touchedAggregatesOfAdmission,
  type TestActorNode,
} from '../support/actors/test-actor-node.ts'
import {
  activateTestAgentByReversedDeposit,
  creditTestCash,
} from '../support/ledger-model/ledger-model-test-commands.ts'

/** Task passes in the commands of an agent, on two nodes over one database. */

const timerCommands = [expireTaskPassCommand, expireCallHoldCommand] as AggregateCommand<
  never,
  void
>[]
const LIST_PRICE = 0.05
const usdc = (amount: bigint) => Number(amount) / 1e6

/** Two nodes, and an agent with a pass of this kind. */
async function bought(t: Test, pass: TaskPassKind, promo: number, cash = 0) {
  const clock = createTestClock()
  const { sql, one, two } = await createTestActorNodePair(t, { clock, timerCommands })
  const agent = await one.born(promo)
  if (cash > 0) await one.ask(agent, creditTestCash, fromUsdc(cash))
  const { view } = await one.ask(agent, buyTaskPassCommand, { pass, spender: UNLIMITED_SPENDER })
  const funds = async (at = two) => at.ask(agent, getAgentBalanceCommand, {})
  const left = async (at = two) =>
    (await funds(at)).passes.find(({ passId }) => passId === view.passId)?.callsLeft ?? 0
  /** What the ledger has moved, by kind and the account that got it. */
  const booked = async () => {
    const rows = await sql<{ way: string; amount: bigint }[]>`
      select kind || ' ' || case when credit like 'agent:%' then split_part(credit, ':', 3) else split_part(credit, ':', 1) end as way,
             sum(amount_micros)::bigint as amount from transfers
       where debit like 'pass:%' group by 1 order by 1`
    return Object.fromEntries(rows.map(({ way, amount }) => [way, usdc(amount)]))
  }
  return { sql, one, two, clock, agent, passId: view.passId, funds, left, booked }
}

const passCall = (more: Partial<CallAdmissionRequest> = {}) =>
  sampleCallAdmissionRequest(LIST_PRICE, { passable: true, ...more })
const admit = (at: TestActorNode, agent: string, call: CallAdmissionRequest) =>
  at.ask(agent, admitCallCommand, call, touchedAggregatesOfAdmission(call))
/** The input of a settlement. Its row says whether a pass has paid. */
const settleInput = (call: CallAdmissionRequest, agent: string, cost = call.amount) => ({
  ...{ callId: call.callId, cost, key: call.key, rows: [], events: [], promoTransferable: true },
  row: ({ at, pass = null }: CommittedCallInfo) =>
    callRowOfAdmission(call, agent, { cost, at, rail: pass === null ? 'credits' : 'pass' }),
})
const settle = (at: TestActorNode, agent: string, call: CallAdmissionRequest, cost = call.amount) =>
  at.ask(
    agent,
    settleCallCommand,
    settleInput(call, agent, cost),
    touchedAggregatesOfAdmission(call),
  )
const fail = (at: TestActorNode, agent: string, call: CallAdmissionRequest) =>
  at.ask(agent, failCallCommand, failCallInputOfAdmission(call, agent))

t.test('64 callers on two nodes get the 50 calls of a pass, each once', async (t) => {
  const { sql, one, two, agent, left, booked } = await bought(t, 'micro', 1.5)
  const outcomes = await Promise.all(
    Array.from({ length: 64 }, async (_, at) => {
      const node = at % 2 === 0 ? one : two
      const call = passCall({ expiresAt: at % 4 < 2 ? Date.now() + HOUR : null })
      const admitted = await awaitErrorCodeOrOk(admit(node, agent, call))
      return admitted === 'ok' ? awaitErrorCodeOrOk(settle(node, agent, call)) : admitted
    }),
  )
  t.equal(outcomes.filter((outcome) => outcome === 'ok').length, 50)
  t.equal(outcomes.filter((outcome) => outcome === 'payment_required').length, 14)
  t.equal(await left(), 0)
  t.strictSame(await booked(), { 'charge platform': 1.23, 'fee treasury': 0.27 })
  await assertNoInvariantViolations(t, sql)
})

t.test('the last slot that another node has used is paid with credits', async (t) => {
  const { sql, one, two, agent, funds, left } = await bought(t, 'micro', 1.6)
  for (let used = 0; used < 49; used += 1) {
    const call = passCall()
    await admit(one, agent, call)
    await settle(one, agent, call)
  }
  const [here, there] = [passCall(), passCall()]
  await admit(one, agent, here)
  await admit(two, agent, there)
  t.equal(await left(one), 0, 'a hold in memory counts')
  await settle(two, agent, there)
  await settle(one, agent, here)
  t.equal(usdc((await funds()).available), 0.05)
  const rails =
    await sql`select rail, count(*)::int as n from calls where tool is not null group by 1 order by 1`
  t.strictSame(
    [...rails],
    [
      { rail: 'credits', n: 1 },
      { rail: 'pass', n: 50 },
    ],
  )
  await assertNoInvariantViolations(t, sql)
})

t.test('a hold of a slot survives its node, and its timer returns the slot', async (t) => {
  const { sql, one, two, clock, agent, left } = await bought(t, 'micro', 1.5)
  const call = passCall({ expiresAt: clock.now() + 60_000 })
  await admit(one, agent, call)
  t.equal(await left(two), 49)
  await assertNoInvariantViolations(t, sql)
  clock.pass(61_000)
  await two.alarms.sweep()
  t.equal(await left(two), 50)
  t.equal(await awaitErrorCodeOrOk(settle(one, agent, call)), 'call_settled')
  await assertNoInvariantViolations(t, sql)
})

t.test('a failed or waived call returns its slot', async (t) => {
  const { sql, one, clock, agent, left, booked } = await bought(t, 'micro', 1.5)
  for (const expiresAt of [null, clock.now() + 60_000]) {
    const [failed, waived] = [passCall({ expiresAt }), passCall({ expiresAt })]
    await admit(one, agent, failed)
    await admit(one, agent, waived)
    t.equal(await left(one), 48)
    await fail(one, agent, failed)
    await settle(one, agent, waived, ZERO_MICROS)
    t.equal(await left(one), 50)
  }
  t.strictSame(await booked(), {})
  for (let held = 0; held < 50; held += 1) await admit(one, agent, passCall())
  const refused = await awaitErrorCodeOrOk(admit(one, agent, passCall()))
  t.equal(refused, 'payment_required', 'no slot is left beside those held in memory')
  await assertNoInvariantViolations(t, sql)
})

t.test('an expired pass pays what it admitted, returns what failed, and ends', async (t) => {
  const { sql, one, two, clock, agent, funds, left, booked } = await bought(t, 'hour', 1, 2)
  const kinds = [null, clock.now() + HOUR + 60_000]
  const calls = kinds.flatMap((expiresAt) => [passCall({ expiresAt }), passCall({ expiresAt })])
  clock.pass(HOUR - 1)
  for (const call of calls) await admit(one, agent, call)
  clock.pass(1)
  const late = passCall()
  const { pass } = await one.ask(agent, quoteCallCommand, late)
  t.equal(pass, null)
  t.equal(await left(one), 0, 'an expired pass is not listed')
  const before = (await funds(one)).available
  for (const [at, call] of calls.entries())
    await (at % 2 === 0 ? settle(one, agent, call) : fail(one, agent, call))
  t.equal((await funds(one)).available - before, fromUsdc(0.05), 'two slots of 0.025')
  await two.alarms.sweep()
  t.strictSame((await booked())['breakage platform'], undefined, 'calls may still run')
  clock.pass(HOUR)
  await two.alarms.sweep()
  t.match(await booked(), { 'breakage platform': 2.4, 'pass_back promo': 0.05 })
  t.strictSame([...(await sql`select id from timers where id like 'pass:%'`)], [])
  await assertNoInvariantViolations(t, sql)
})

t.test(
  'a pass pays only calls between its price and 0.05, and the soonest to expire first',
  async (t) => {
    const { one, agent, passId } = await bought(t, 'micro', 20)
    const day = await one.ask(agent, buyTaskPassCommand, {
      pass: 'day',
      spender: UNLIMITED_SPENDER,
    })
    const payerOf = async (price: number, more: Partial<CallAdmissionRequest> = {}) => {
      const call = sampleCallAdmissionRequest(price, { passable: true, ...more })
      return (await one.ask(agent, quoteCallCommand, call)).pass?.passId ?? null
    }
    t.equal(await payerOf(0.05), day.view.passId)
    t.equal(await payerOf(0.016), day.view.passId)
    t.equal(await payerOf(0.015999), null)
    t.equal(await payerOf(0.050001), null)
    t.equal(await payerOf(0.05, { passable: false }), null)
    t.not(day.view.passId, passId)
  },
)

t.test('limits count the list price, and the balance is not touched', async (t) => {
  const { sql, one, agent, funds } = await bought(t, 'micro', 1.5, 0.2)
  const key = { ...UNLIMITED_API_KEY_SPENDING, id: newUuidV7(Date.now()), cap: fromUsdc(0.16) }
  const { taskId } = await one.ask(agent, startTaskCommand, { name: 'x', budget: fromUsdc(0.11) })
  const outcomes: string[] = []
  for (const [taskOf, expiresAt] of [
    [taskId, null],
    [taskId, Date.now() + HOUR],
    [taskId, null],
    [null, Date.now() + HOUR],
    [null, null],
  ] as const) {
    const call = passCall({ key, taskId: taskOf, expiresAt })
    const admitted = await awaitErrorCodeOrOk(admit(one, agent, call))
    outcomes.push(admitted)
    if (admitted === 'ok') await settle(one, agent, call)
  }
  t.strictSame(outcomes, ['ok', 'ok', 'task_budget_exceeded', 'ok', 'key_cap_exceeded'])
  const task = await one.ask(
    agent,
    getTaskCommand,
    { taskId },
    { touch: [{ kind: 'taskSession', id: taskId }] },
  )
  t.equal(usdc(task.spent), 0.1)
  t.equal(usdc((await funds()).available), 0.2)
  await assertNoInvariantViolations(t, sql)
})

t.test('a call in one command uses a slot, and waived it uses none', async (t) => {
  const { sql, one, agent, left } = await bought(t, 'micro', 1.5)
  for (const cost of [fromUsdc(LIST_PRICE), ZERO_MICROS]) {
    const admission = passCall()
    const { callId: _id, key: _key, ...input } = settleInput(admission, agent, cost)
    await one.ask(agent, admitAndChargeFinishedCallCommand, { admission, ...input })
  }
  t.equal(await left(), 49)
  await assertNoInvariantViolations(t, sql)
})

t.test('a referrer earns 1 % of the price of the pass, not of the list price', async (t) => {
  const { sql, one } = await bought(t, 'micro', 1.5)
  const sponsor = await one.born(0)
  const agent = newUuidV7(Date.now())
  const birth = { agentId: agent, starter: ZERO_MICROS, referrer: sponsor, rows: [] }
  await one.ask(agent, createAgentCommand, birth, { fresh: true })
  await one.ask(agent, activateTestAgentByReversedDeposit, {})
  await one.ask(agent, creditTestCash, fromUsdc(2))
  await one.ask(agent, buyTaskPassCommand, { pass: 'micro', spender: UNLIMITED_SPENDER })
  const call = passCall()
  await admit(one, agent, call)
  await settle(one, agent, call)
  const rows =
    await sql`select credit, amount_micros::int as amount from transfers where call_id = ${call.callId} order by 2`
  t.strictSame(
    [...rows],
    [
      { credit: `referral:${sponsor}`, amount: 300 },
      { credit: 'treasury:fees', amount: 5_400 },
      { credit: 'platform:tools', amount: 24_300 },
    ],
  )
})
