import t from 'tap'
import { DAY } from '../../../core/clock.ts'
import { backpackMachine } from '../../../machines/backpack-machine.ts'
import { spendWindowsAt } from '../../../machines/backpack/fuse-limits.ts'
import {
  BACKPACK_TEST_NOON_MS,
  BACKPACK_TEST_END_OF_DAY_MS,
  BACKPACK_TEST_NEXT_MIDNIGHT_MS,
  BACKPACK_TEST_END_OF_MONTH_MS,
  BACKPACK_TEST_START_OF_DECEMBER_MS,
  fuseLimitsFromUsd,
  sampleBackpackSnapshot,
  sampleBackpackSpendCheckEvent,
  backpackHoldEvent,
  backpackChargeEvent,
  backpackCaptureEvent,
  backpackReleaseEvent,
  trippedFuseLimitOfMachineStep,
} from '../../support/machines/backpack-machine-sample-events.ts'
import {
  stepMachineThroughEvents,
  stepStateMachine,
} from '../../support/machines/state-machine-stepper.ts'

t.test('days and months restart at UTC midnight', async (t) => {
  const start = stepMachineThroughEvents(backpackMachine, sampleBackpackSnapshot(), [
    backpackChargeEvent(50),
    backpackChargeEvent(50),
  ]).snapshot
  t.equal(
    trippedFuseLimitOfMachineStep(
      start,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_END_OF_DAY_MS),
    ),
    'per_day',
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      start,
      sampleBackpackSpendCheckEvent(50, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
    ),
    null,
  )
  const rolled = stepStateMachine(
    backpackMachine,
    start,
    backpackHoldEvent(40, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
  ).snapshot.context
  t.match(rolled, {
    day: '2026-11-22',
    spentDay: 0n,
    heldDay: 40n,
    spentMonth: 100n,
    heldMonth: 40n,
  })
  const full = sampleBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, 100) })
  const month = stepStateMachine(backpackMachine, full, backpackChargeEvent(100)).snapshot
  t.equal(
    trippedFuseLimitOfMachineStep(
      month,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_END_OF_MONTH_MS),
    ),
    'per_month',
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      month,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_START_OF_DECEMBER_MS),
    ),
    null,
  )
  t.match(
    stepStateMachine(
      backpackMachine,
      month,
      backpackChargeEvent(10, BACKPACK_TEST_START_OF_DECEMBER_MS),
    ).snapshot.context,
    {
      month: '2026-12',
      spentMonth: 10n,
      spentDay: 10n,
      spentTotal: 110n,
    },
  )
})

t.test('a clock that goes backwards reopens no window', async (t) => {
  const start = stepMachineThroughEvents(backpackMachine, sampleBackpackSnapshot(), [
    backpackChargeEvent(50, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
    backpackChargeEvent(50, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
  ]).snapshot
  t.equal(
    trippedFuseLimitOfMachineStep(
      start,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_END_OF_DAY_MS),
    ),
    'per_day',
  )
  t.equal(
    trippedFuseLimitOfMachineStep(start, backpackHoldEvent(1, BACKPACK_TEST_NOON_MS)),
    'per_day',
  )
  t.equal(
    stepStateMachine(backpackMachine, start, backpackReleaseEvent(0, BACKPACK_TEST_NOON_MS))
      .snapshot.context.day,
    '2026-11-22',
  )
  const later = sampleBackpackSnapshot({
    createdAt: BACKPACK_TEST_START_OF_DECEMBER_MS,
    expiresAt: BACKPACK_TEST_START_OF_DECEMBER_MS + 90 * DAY,
    fuse: fuseLimitsFromUsd(null, null, 5),
  })
  const spent = stepStateMachine(
    backpackMachine,
    later,
    backpackChargeEvent(5, BACKPACK_TEST_START_OF_DECEMBER_MS),
  ).snapshot
  t.equal(
    trippedFuseLimitOfMachineStep(
      spent,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_END_OF_MONTH_MS),
    ),
    'per_month',
  )
})

t.test('a call counts in the window that admitted it', async (t) => {
  const start = stepMachineThroughEvents(backpackMachine, sampleBackpackSnapshot(), [
    backpackHoldEvent(30, BACKPACK_TEST_END_OF_DAY_MS),
    backpackHoldEvent(5, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
  ]).snapshot
  t.match(start.context, { heldDay: 5n, heldMonth: 35n })
  const late = stepStateMachine(
    backpackMachine,
    start,
    backpackCaptureEvent(30, 25, BACKPACK_TEST_NEXT_MIDNIGHT_MS, BACKPACK_TEST_END_OF_DAY_MS),
  ).snapshot.context
  t.match(late, {
    heldDay: 5n,
    spentDay: 0n,
    heldMonth: 5n,
    spentMonth: 25n,
    spentTotal: 25n,
    calls: 1,
  })
  const soft = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot(),
    backpackChargeEvent(30, BACKPACK_TEST_NEXT_MIDNIGHT_MS, BACKPACK_TEST_END_OF_DAY_MS),
  ).snapshot.context
  t.match(soft, { spentDay: 0n, spentMonth: 30n, spentTotal: 30n, calls: 1 })
  const lastMonth = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot(),
    backpackChargeEvent(30, BACKPACK_TEST_START_OF_DECEMBER_MS, BACKPACK_TEST_END_OF_MONTH_MS),
  ).snapshot.context
  t.match(lastMonth, { spentDay: 0n, spentMonth: 0n, spentTotal: 30n })
})

t.test('a charge of an earlier day is not limited by spending of today', async (t) => {
  const full = stepMachineThroughEvents(backpackMachine, sampleBackpackSnapshot(), [
    backpackChargeEvent(50, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
    backpackChargeEvent(50, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
  ]).snapshot
  t.equal(
    trippedFuseLimitOfMachineStep(
      full,
      backpackChargeEvent(30, BACKPACK_TEST_NEXT_MIDNIGHT_MS, BACKPACK_TEST_END_OF_DAY_MS),
    ),
    null,
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      full,
      backpackChargeEvent(51, BACKPACK_TEST_NEXT_MIDNIGHT_MS, BACKPACK_TEST_END_OF_DAY_MS),
    ),
    'per_call',
  )
})

t.test(
  'a hold admitted while the clock was back keeps counting as held in the open window',
  async (t) => {
    const { snapshot } = stepMachineThroughEvents(backpackMachine, sampleBackpackSnapshot(), [
      backpackHoldEvent(1, BACKPACK_TEST_NEXT_MIDNIGHT_MS),
      backpackHoldEvent(30, BACKPACK_TEST_END_OF_DAY_MS),
    ])
    t.equal(snapshot.context.heldDay, 31n)
    const { context } = stepStateMachine(
      backpackMachine,
      snapshot,
      backpackCaptureEvent(30, 30, BACKPACK_TEST_NEXT_MIDNIGHT_MS, BACKPACK_TEST_END_OF_DAY_MS),
    ).snapshot
    t.match(context, { heldDay: 31n, spentDay: 0n, spentTotal: 30n })
  },
)

t.test('capture and release reduce the held amount, never below zero', async (t) => {
  const held = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot(),
    backpackHoldEvent(40),
  ).snapshot
  t.match(stepStateMachine(backpackMachine, held, backpackCaptureEvent(40, 25)).snapshot.context, {
    heldDay: 0n,
    spentDay: 25n,
    heldMonth: 0n,
    spentMonth: 25n,
    calls: 1,
  })
  t.match(stepStateMachine(backpackMachine, held, backpackReleaseEvent(40)).snapshot.context, {
    heldDay: 0n,
    heldMonth: 0n,
    calls: 0,
  })
  t.match(stepStateMachine(backpackMachine, held, backpackReleaseEvent(41)).snapshot.context, {
    heldDay: 0n,
    heldMonth: 0n,
  })
})

t.test('windowsAt returns the current counters', async (t) => {
  const { context } = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot(),
    backpackChargeEvent(30),
  ).snapshot
  t.match(spendWindowsAt(context, BACKPACK_TEST_END_OF_DAY_MS), { spentDay: 30n, spentMonth: 30n })
  t.match(spendWindowsAt(context, BACKPACK_TEST_NEXT_MIDNIGHT_MS), {
    day: '2026-11-22',
    spentDay: 0n,
    spentMonth: 30n,
  })
  t.match(spendWindowsAt(context, BACKPACK_TEST_START_OF_DECEMBER_MS), {
    month: '2026-12',
    spentMonth: 0n,
  })
})
