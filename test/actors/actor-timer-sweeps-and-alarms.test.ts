import t from 'tap'
import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import {
  getBackpackCommand,
  renewBackpackCommand,
  revokeBackpackCommand,
} from '../../actors/commands/backpacks-commands.ts'
import {
  getTaskCommand,
  startTaskCommand,
} from '../../actors/commands/task-session-actor-commands.ts'
import { DAY } from '../../core/clock.ts'
import { fromUsdc } from '../../core/money.ts'
import type { AggregateStore } from '../../persistence/aggregate-store.ts'
import { admitCallCommand, settleCallCommand } from '../../payments/commands/call-commands.ts'
import {
  getAgentBalanceCommand,
  sendCreditsCommand,
} from '../../payments/commands/agent-account-commands.ts'
import {
  sampleTaskInput,
  createTestBackpack,
  createTestActorNodePair,
  createCountingAggregateCommand,
  sampleCreditTransferInput,
  createSingleTestActorNode,
  assertNoInvariantViolations,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  sampleCallAdmissionRequest,
  awaitErrorCodeOrOk,
  createTestPauseGate,
  createTestActorNode,
  settleCallInputOfAdmission,
  createTestClock,
  touchedAggregatesOfAdmission,
  type TestPauseGate,
} from '../support/actors/test-actor-node.ts'

/** A node that has read the due timers and fires them when the gate opens. */
const looksAndWaits =
  (at: TestPauseGate) =>
  (store: AggregateStore): AggregateStore => ({
    ...store,
    async dueTimers(...args) {
      const due = await store.dueTimers(...args)
      await at.pass()
      return due
    },
  })

t.test('an overdue hold is released once by two nodes that sweep together', async (t) => {
  const clock = createTestClock()
  const { sql, one, two } = await createTestActorNodePair(t, { clock })
  const id = await one.born(0.5)
  const { backpackId } = await createTestBackpack(one, id, null, 90, clock.now())
  const { taskId } = await one.ask(id, startTaskCommand, sampleTaskInput('work'))
  const asked = sampleCallAdmissionRequest(0.4, {
    taskId,
    backpackId,
    expiresAt: clock.now() + 1_000,
  })
  await one.ask(id, admitCallCommand, asked, touchedAggregatesOfAdmission(asked))
  t.ok(one.dues.includes(clock.now() + 1_000), 'the alarm is set')
  t.match(await two.ask(id, getAgentBalanceCommand, {}), { promo: 100_000n, held: 400_000n })
  await Promise.all([one.alarms.sweep(), two.alarms.sweep()])
  t.match(await two.ask(id, getAgentBalanceCommand, {}), { held: 400_000n }, 'not before its time')
  clock.pass(1_000)
  await Promise.all([one.alarms.sweep(), two.alarms.sweep()])
  await Promise.all([one.alarms.sweep(), two.alarms.sweep()])
  t.match(await one.ask(id, getAgentBalanceCommand, {}), { promo: 500_000n, held: 0n })
  t.match(await one.ask(id, getTaskCommand, { taskId }), { held: 0n })
  const released = await sql`select 1 from transfers where kind = 'release'`
  t.equal(released.length, 1)
  t.equal((await sql`select 1 from timers where id like 'hold:%'`).length, 0)
  t.equal(
    await awaitErrorCodeOrOk(
      one.ask(
        id,
        settleCallCommand,
        settleCallInputOfAdmission(asked, id),
        touchedAggregatesOfAdmission(asked),
      ),
    ),
    'call_settled',
  )
  await assertNoInvariantViolations(t, sql)
})

t.test('a hold is released although its Backpack is revoked and not loaded', async (t) => {
  const clock = createTestClock()
  const { sql, one, two } = await createTestActorNodePair(t, { clock })
  const id = await one.born(0.5)
  const { backpackId } = await createTestBackpack(one, id, null, 90, clock.now())
  const asked = sampleCallAdmissionRequest(0.4, { backpackId, expiresAt: clock.now() + 1_000 })
  await one.ask(id, admitCallCommand, asked)
  await one.ask(id, revokeBackpackCommand, { backpackId })
  clock.pass(1_000)
  await two.alarms.sweep()
  t.strictSame(two.logged, [])
  t.match(await two.ask(id, getAgentBalanceCommand, {}), { promo: 500_000n, held: 0n })
  await assertNoInvariantViolations(t, sql)
})

t.test('a timer read before a capture does not release the hold', async (t) => {
  const clock = createTestClock()
  const at = createTestPauseGate()
  const { sql, one } = await createSingleTestActorNode(t, { clock })
  const late = createTestActorNode(t, sql, { clock, store: looksAndWaits(at) })
  const id = await one.born(0.5)
  const asked = sampleCallAdmissionRequest(0.4, { expiresAt: clock.now() + 1_000 })
  await one.ask(id, admitCallCommand, asked)
  clock.pass(1_000)
  const swept = late.alarms.sweep()
  await at.reached
  await one.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id, fromUsdc(0.3)))
  at.open()
  await swept
  t.match(await late.ask(id, getAgentBalanceCommand, {}), { promo: 200_000n, held: 0n })
  await assertNoInvariantViolations(t, sql)
})

t.test('a sweep fires timers that became due during the previous sweep', async (t) => {
  const clock = createTestClock()
  const at = createTestPauseGate()
  const { sql, one } = await createSingleTestActorNode(t, { clock })
  const slow = createTestActorNode(t, sql, { clock, store: looksAndWaits(at) })
  const id = await one.born(0.5)
  await one.ask(
    id,
    admitCallCommand,
    sampleCallAdmissionRequest(0.4, { expiresAt: clock.now() + 1_000 }),
  )
  const early = slow.alarms.sweep()
  await at.reached
  clock.pass(1_000)
  const later = slow.alarms.sweep()
  at.open()
  await Promise.all([early, later])
  t.match(await one.ask(id, getAgentBalanceCommand, {}), { promo: 500_000n, held: 0n })
})

t.test('an expired hold does not overwrite the reply stored under its key', async (t) => {
  const clock = createTestClock()
  const { sql, one, two } = await createTestActorNodePair(t, { clock })
  const id = await one.born(0.5)
  const intent = { hash: 'hash', keyId: null, ghost: false, response: '{"status":503,"body":{}}' }
  const outside = (idempotencyKey: string) =>
    sampleCallAdmissionRequest(0.1, { idempotencyKey, intent, expiresAt: clock.now() + 1_000 })
  const [answered, lost] = [outside('answered'), outside('lost')]
  for (const asked of [answered, lost]) await one.ask(id, admitCallCommand, asked)
  const other = sampleCallAdmissionRequest(0.05, { idempotencyKey: 'answered' })
  await one.ask(id, admitCallCommand, other)
  await one.ask(id, settleCallCommand, settleCallInputOfAdmission(other, id), { key: 'answered' })
  clock.pass(1_000)
  await two.alarms.sweep()
  t.strictSame([...one.logged, ...two.logged], [])
  t.match(await one.ask(id, getAgentBalanceCommand, {}), { promo: 450_000n, held: 0n })
  const calls = await sql`select idempotency_key as key, call_id, error_code from calls order by 1`
  t.strictSame(
    [...calls],
    [
      { key: 'answered', call_id: other.callId, error_code: null },
      { key: 'lost', call_id: lost.callId, error_code: 'outcome_unknown' },
    ],
  )
  t.equal((await sql`select 1 from timers`).length, 0)
  await assertNoInvariantViolations(t, sql)
})

t.test('a Backpack warns and expires by its timers, once on two nodes', async (t) => {
  const clock = createTestClock()
  const { sql, one, two } = await createTestActorNodePair(t, { clock })
  const id = await one.born(0.5)
  await createTestBackpack(one, id, null, 8, clock.now())
  const sweep = () => Promise.all([one.alarms.sweep(), two.alarms.sweep()])
  const facts = async () =>
    (
      await sql`select type || ' ' || coalesce(data->>'days', '') as told from outbox order by id`
    ).map((row) => String(row['told']).trim())
  clock.pass(DAY)
  await sweep()
  t.strictSame(await facts(), ['backpack.created', 'backpack.expiring 7'])
  clock.pass(6 * DAY)
  await sweep()
  await sweep()
  t.strictSame(await facts(), ['backpack.created', 'backpack.expiring 7', 'backpack.expiring 1'])
  clock.pass(DAY)
  await sweep()
  const [pack] = await sql`select state->>'value' as value from actors where kind = 'backpack'`
  t.equal(pack?.['value'], 'expired')
  t.equal((await sql`select 1 from timers`).length, 0)
  await assertNoInvariantViolations(t, sql)
})

t.test('an expiry timer read before a renewal has no effect', async (t) => {
  const clock = createTestClock()
  const at = createTestPauseGate()
  const { sql, one } = await createSingleTestActorNode(t, { clock })
  const late = createTestActorNode(t, sql, { clock, store: looksAndWaits(at) })
  const id = await one.born(0.5)
  const { backpackId } = await createTestBackpack(one, id, null, 1, clock.now())
  clock.pass(DAY - 1)
  const swept = late.alarms.sweep()
  await at.reached
  clock.pass(1)
  await one.ask(id, renewBackpackCommand, { backpackId, expiresAt: clock.now() + 30 * DAY })
  at.open()
  await swept
  t.match(await one.ask(id, getBackpackCommand, { backpackId }), { state: 'active' })
  const due = await sql`select 1 from timers where id like 'backpack:%expiry%'`
  t.equal(due.length, 1, 'the renewed expiry still waits')
  await assertNoInvariantViolations(t, sql)
})

t.test('a timer that fails delays neither other timers nor their alarm', async (t) => {
  const clock = createTestClock()
  let rang = () => {}
  const ringing = new Promise<void>((resolve) => (rang = resolve))
  const ring: AggregateCommand<never, void> = {
    name: 'ring',
    kind: 'agent',
    apply(turn) {
      turn.cancelTimer('ring')
      turn.cancelTimer('later')
      rang()
    },
  }
  const { sql, one } = await createSingleTestActorNode(t, { clock, timerCommands: [ring] })
  const [id, broken] = [await one.born(0.5), await one.born(0.5)]
  await sql`update actors set machine_version = 99 where aggregate_id = ${broken}`
  const set = (of: string, count: number, prefix: string, command: string, due: number) => sql`
    insert into timers select ${of}, 'agent', ${prefix} || n, to_timestamp(${due} / 1000.0::float8),
      ${command}, '{}' from generate_series(1, ${count}) n`
  await set(id, 250, 'unknown', 'no.such.command', clock.now() - 5_000)
  await set(id, 1, 'due', 'hold.expire', clock.now() - 4_000)
  const fresh = createTestActorNode(t, sql, { clock, timerCommands: [ring] })
  await fresh.ask(id, startTaskCommand, sampleTaskInput('x'))
  await sql`insert into timers values (${id}, 'agent', 'ring', to_timestamp(${clock.now()} / 1000.0::float8), 'ring', '{}')`
  await fresh.alarms.sweep()
  await ringing
  t.equal(
    (await sql`select 1 from timers where id = 'ring'`).length,
    0,
    'it is behind 250 that fail',
  )
  t.equal(await fresh.store.nextTimer(clock.now()), null, 'those that fail set no alarm')
  const soon = clock.now() + 10
  await sql`insert into timers values (${id}, 'agent', 'later', to_timestamp(${soon} / 1000.0::float8), 'ring', '{}')`
  t.equal(Math.round((await fresh.store.nextTimer(clock.now())) ?? 0), Math.round(soon))
})

t.test('an alarm runs the timers that are due when it fires', async (t) => {
  const clock = createTestClock()
  let rang = () => {}
  const ringing = new Promise<void>((resolve) => (rang = resolve))
  const ring: AggregateCommand<never, void> = {
    name: 'ring',
    kind: 'agent',
    apply(turn) {
      turn.cancelTimer('bell')
      rang()
    },
  }
  const { one } = await createSingleTestActorNode(t, { clock, timerCommands: [ring] })
  const id = await one.born(0.5)
  const dueAt = clock.now() + 5
  const set = createCountingAggregateCommand((turn) =>
    turn.timer({ id: 'bell', dueAt, command: 'ring', input: {} }),
  )
  await one.ask(id, set, undefined)
  t.strictSame(one.dues, [dueAt])
  clock.pass(5)
  const alarm = setTimeout(() => {}, 30_000) // the alarm itself keeps no process alive
  one.alarms.wakeAt(dueAt)
  await ringing
  clearTimeout(alarm)
  t.pass('it has rung')
})

t.test('a sweep absorbs an inbox that no command reads', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(poor, 0.1))
  await sql`update inbox set at = at - interval '1 minute'`
  await one.alarms.sweep()
  const [row] = await sql`select absorbed_at from inbox`
  t.not(row?.['absorbed_at'], null)
  await assertNoInvariantViolations(t, sql)
})
