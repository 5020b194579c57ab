import t from 'tap'
import { backpackMachine } from '../../../machines/backpack-machine.ts'
import {
  BACKPACK_TEST_NOON_MS,
  BACKPACK_TEST_END_OF_DAY_MS,
  BACKPACK_TEST_NEXT_MIDNIGHT_MS,
  BACKPACK_TEST_START_OF_DECEMBER_MS,
  fuseLimitsFromUsd,
  sampleBackpackSnapshot,
  sampleBackpackSpendCheckEvent,
  backpackHoldEvent,
  backpackChargeEvent,
  backpackRejectionOfMachineStep,
  trippedFuseLimitOfMachineStep,
} from '../../support/machines/backpack-machine-sample-events.ts'
import {
  stepMachineThroughEvents,
  stepStateMachine,
} from '../../support/machines/state-machine-stepper.ts'

t.test('an empty tool list allows none, null allows all', async (t) => {
  t.equal(
    backpackRejectionOfMachineStep(
      sampleBackpackSnapshot({ tools: [] }),
      sampleBackpackSpendCheckEvent(0),
    ),
    'TOOL_NOT_ALLOWED',
  )
  t.equal(
    backpackRejectionOfMachineStep(
      sampleBackpackSnapshot({ tools: null }),
      sampleBackpackSpendCheckEvent(0),
    ),
    null,
  )
})

t.test('each limit allows exactly its amount and rejects one micro more', async (t) => {
  const start = sampleBackpackSnapshot()
  t.equal(trippedFuseLimitOfMachineStep(start, sampleBackpackSpendCheckEvent(50)), null)
  t.equal(trippedFuseLimitOfMachineStep(start, sampleBackpackSpendCheckEvent(51)), 'per_call')
  const spent = stepMachineThroughEvents(backpackMachine, start, [
    backpackChargeEvent(30),
    backpackHoldEvent(20),
  ]).snapshot
  t.equal(
    trippedFuseLimitOfMachineStep(
      spent,
      sampleBackpackSpendCheckEvent(40, BACKPACK_TEST_NOON_MS, { day: 10 }),
    ),
    null,
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      spent,
      sampleBackpackSpendCheckEvent(41, BACKPACK_TEST_NOON_MS, { day: 10 }),
    ),
    'per_day',
  )
  t.equal(
    trippedFuseLimitOfMachineStep(spent, backpackHoldEvent(41, BACKPACK_TEST_NOON_MS, { day: 10 })),
    'per_day',
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      spent,
      sampleBackpackSpendCheckEvent(51, BACKPACK_TEST_NOON_MS, { day: 100 }),
    ),
    'per_call',
    'the smallest window first',
  )
  const monthly = sampleBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, 100) })
  t.equal(
    trippedFuseLimitOfMachineStep(
      monthly,
      sampleBackpackSpendCheckEvent(60, BACKPACK_TEST_NOON_MS, { day: 0, month: 40 }),
    ),
    null,
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      monthly,
      sampleBackpackSpendCheckEvent(61, BACKPACK_TEST_NOON_MS, { day: 0, month: 40 }),
    ),
    'per_month',
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      sampleBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, null) }),
      sampleBackpackSpendCheckEvent(1_000_000_000),
    ),
    null,
  )
})

t.test('a check changes nothing', async (t) => {
  const start = sampleBackpackSnapshot()
  t.strictSame(
    stepStateMachine(
      backpackMachine,
      start,
      sampleBackpackSpendCheckEvent(50, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
    ).snapshot.context,
    start.context,
  )
})

t.test('a free call trips no fuse', async (t) => {
  const start = sampleBackpackSnapshot({ fuse: fuseLimitsFromUsd(0, 0, 0) })
  t.equal(
    backpackRejectionOfMachineStep(
      start,
      sampleBackpackSpendCheckEvent(0, BACKPACK_TEST_NOON_MS, { day: 10 }),
    ),
    null,
  )
  t.equal(backpackRejectionOfMachineStep(start, backpackHoldEvent(0)), null)
  t.match(stepStateMachine(backpackMachine, start, backpackChargeEvent(0)).snapshot.context, {
    calls: 1,
    spentDay: 0n,
  })
})

t.test('a tripped fuse emits once per window and limit, with its numbers', async (t) => {
  const start = stepMachineThroughEvents(backpackMachine, sampleBackpackSnapshot(), [
    backpackChargeEvent(30),
    backpackHoldEvent(20),
  ]).snapshot
  const first = stepStateMachine(
    backpackMachine,
    start,
    sampleBackpackSpendCheckEvent(45, BACKPACK_TEST_NOON_MS, { day: 10 }),
  )
  t.strictSame(first.emitted, [
    {
      type: 'fuse.tripped',
      limit: 'per_day',
      window: '2026-11-21',
      limitAmount: 100n,
      spent: 60n,
      needed: 45n,
      tool: 'web_search',
    },
  ])
  t.strictSame(first.snapshot.context, { ...start.context, told: { per_day: '2026-11-21' } })
  const again = stepStateMachine(
    backpackMachine,
    first.snapshot,
    backpackHoldEvent(45, BACKPACK_TEST_NOON_MS, { day: 10 }),
  )
  t.strictSame([again.limit, again.emitted], ['per_day', []])
  t.strictSame(again.snapshot.context, first.snapshot.context)
  const other = stepStateMachine(backpackMachine, first.snapshot, sampleBackpackSpendCheckEvent(51))
  t.match(other.emitted, [{ limit: 'per_call', spent: 0n, limitAmount: 50n }], 'another limit')
  const tomorrow = stepStateMachine(
    backpackMachine,
    other.snapshot,
    sampleBackpackSpendCheckEvent(51, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
  )
  t.match(tomorrow.emitted, [{ limit: 'per_call', window: '2026-11-22' }], 'another day')
})

t.test('the monthly limit emits once per month', async (t) => {
  const start = sampleBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, 100) })
  const first = stepStateMachine(backpackMachine, start, sampleBackpackSpendCheckEvent(101))
  t.match(first.emitted, [{ limit: 'per_month', window: '2026-11', spent: 0n, limitAmount: 100n }])
  const nextDay = stepStateMachine(
    backpackMachine,
    first.snapshot,
    sampleBackpackSpendCheckEvent(101, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
  )
  t.strictSame([nextDay.limit, nextDay.emitted], ['per_month', []])
  t.match(
    stepStateMachine(
      backpackMachine,
      nextDay.snapshot,
      sampleBackpackSpendCheckEvent(101, BACKPACK_TEST_START_OF_DECEMBER_MS),
    ).emitted,
    [{ window: '2026-12' }],
  )
})

t.test('a fuse emitted on a later day is not emitted again when the clock goes back', async (t) => {
  const told = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot(),
    sampleBackpackSpendCheckEvent(51, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
  ).snapshot
  t.equal(told.context.day, '2026-11-22')
  t.strictSame(
    stepStateMachine(
      backpackMachine,
      told,
      sampleBackpackSpendCheckEvent(51, BACKPACK_TEST_END_OF_DAY_MS),
    ).emitted,
    [],
  )
})

t.test('a charge checks the limits again, without the reservations of other calls', async (t) => {
  const start = stepMachineThroughEvents(backpackMachine, sampleBackpackSnapshot(), [
    backpackChargeEvent(50),
    backpackHoldEvent(20),
  ]).snapshot
  t.equal(trippedFuseLimitOfMachineStep(start, backpackChargeEvent(30)), null)
  t.equal(trippedFuseLimitOfMachineStep(start, backpackChargeEvent(31)), 'per_day')
  t.equal(trippedFuseLimitOfMachineStep(start, backpackChargeEvent(51)), 'per_call')
  const tripped = stepStateMachine(backpackMachine, start, backpackChargeEvent(31))
  t.match(tripped.emitted, [{ type: 'fuse.tripped', spent: 70n, needed: 31n }])
  t.equal(tripped.snapshot.context.spentDay, 50n)
  t.equal(
    trippedFuseLimitOfMachineStep(
      sampleBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, 10) }),
      backpackChargeEvent(11),
    ),
    'per_month',
  )
})
