import t from 'tap'
import { DAY } from '../../core/clock.ts'
import { backpackMachine } from '../../machines/backpack-machine.ts'
import { spendWindowsAt } from '../../machines/backpack/fuse-limits.ts'
import {
  BACKPACK_TEST_NOON_MS,
  END_OF_DAY_MS,
  NEXT_MIDNIGHT_MS,
  END_OF_MONTH_MS,
  START_OF_DECEMBER_MS,
  fuseLimitsFromUsd,
  createBackpackSnapshot,
  backpackCheckEvent,
  backpackHoldEvent,
  backpackChargeEvent,
  backpackCaptureEvent,
  backpackReleaseEvent,
  backpackRejectionOfMachineStep,
  trippedFuseLimitOfMachineStep,
} from '../support/machines/backpack-machine-sample-events.ts'
import { playEvents, stepStateMachine } from '../support/machines/state-machine-stepper.ts'

t.test('an empty tool list allows none, null allows all', async (t) => {
  t.equal(
    backpackRejectionOfMachineStep(createBackpackSnapshot({ tools: [] }), backpackCheckEvent(0)),
    'TOOL_NOT_ALLOWED',
  )
  t.equal(
    backpackRejectionOfMachineStep(createBackpackSnapshot({ tools: null }), backpackCheckEvent(0)),
    null,
  )
})

t.test('each limit allows exactly its amount and rejects one micro more', async (t) => {
  const start = createBackpackSnapshot()
  t.equal(trippedFuseLimitOfMachineStep(start, backpackCheckEvent(50)), null)
  t.equal(trippedFuseLimitOfMachineStep(start, backpackCheckEvent(51)), 'per_call')
  const spent = playEvents(backpackMachine, start, [
    backpackChargeEvent(30),
    backpackHoldEvent(20),
  ]).snapshot
  t.equal(
    trippedFuseLimitOfMachineStep(
      spent,
      backpackCheckEvent(40, BACKPACK_TEST_NOON_MS, { day: 10 }),
    ),
    null,
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      spent,
      backpackCheckEvent(41, BACKPACK_TEST_NOON_MS, { day: 10 }),
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
      backpackCheckEvent(51, BACKPACK_TEST_NOON_MS, { day: 100 }),
    ),
    'per_call',
    'the smallest window first',
  )
  const monthly = createBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, 100) })
  t.equal(
    trippedFuseLimitOfMachineStep(
      monthly,
      backpackCheckEvent(60, BACKPACK_TEST_NOON_MS, { day: 0, month: 40 }),
    ),
    null,
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      monthly,
      backpackCheckEvent(61, BACKPACK_TEST_NOON_MS, { day: 0, month: 40 }),
    ),
    'per_month',
  )
  t.equal(
    trippedFuseLimitOfMachineStep(
      createBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, null) }),
      backpackCheckEvent(1_000_000_000),
    ),
    null,
  )
})

t.test('a check changes nothing', async (t) => {
  const start = createBackpackSnapshot()
  t.strictSame(
    stepStateMachine(backpackMachine, start, backpackCheckEvent(50, NEXT_MIDNIGHT_MS)).snapshot
      .context,
    start.context,
  )
})

t.test('a free call trips no fuse', async (t) => {
  const start = createBackpackSnapshot({ fuse: fuseLimitsFromUsd(0, 0, 0) })
  t.equal(
    backpackRejectionOfMachineStep(
      start,
      backpackCheckEvent(0, BACKPACK_TEST_NOON_MS, { day: 10 }),
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
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
    backpackChargeEvent(30),
    backpackHoldEvent(20),
  ]).snapshot
  const first = stepStateMachine(
    backpackMachine,
    start,
    backpackCheckEvent(45, BACKPACK_TEST_NOON_MS, { day: 10 }),
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
  const other = stepStateMachine(backpackMachine, first.snapshot, backpackCheckEvent(51))
  t.match(other.emitted, [{ limit: 'per_call', spent: 0n, limitAmount: 50n }], 'another limit')
  const tomorrow = stepStateMachine(
    backpackMachine,
    other.snapshot,
    backpackCheckEvent(51, NEXT_MIDNIGHT_MS),
  )
  t.match(tomorrow.emitted, [{ limit: 'per_call', window: '2026-11-22' }], 'another day')
})

t.test('the monthly limit emits once per month', async (t) => {
  const start = createBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, 100) })
  const first = stepStateMachine(backpackMachine, start, backpackCheckEvent(101))
  t.match(first.emitted, [{ limit: 'per_month', window: '2026-11', spent: 0n, limitAmount: 100n }])
  const nextDay = stepStateMachine(
    backpackMachine,
    first.snapshot,
    backpackCheckEvent(101, NEXT_MIDNIGHT_MS),
  )
  t.strictSame([nextDay.limit, nextDay.emitted], ['per_month', []])
  t.match(
    stepStateMachine(
      backpackMachine,
      nextDay.snapshot,
      backpackCheckEvent(101, START_OF_DECEMBER_MS),
    ).emitted,
    [{ window: '2026-12' }],
  )
})

t.test('a fuse emitted on a later day is not emitted again when the clock goes back', async (t) => {
  const told = stepStateMachine(
    backpackMachine,
    createBackpackSnapshot(),
    backpackCheckEvent(51, NEXT_MIDNIGHT_MS),
  ).snapshot
  t.equal(told.context.day, '2026-11-22')
  t.strictSame(
    stepStateMachine(backpackMachine, told, backpackCheckEvent(51, END_OF_DAY_MS)).emitted,
    [],
  )
})

t.test('a charge checks the limits again, without the reservations of other calls', async (t) => {
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
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
      createBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, 10) }),
      backpackChargeEvent(11),
    ),
    'per_month',
  )
})

t.test('days and months restart at UTC midnight', async (t) => {
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
    backpackChargeEvent(50),
    backpackChargeEvent(50),
  ]).snapshot
  t.equal(trippedFuseLimitOfMachineStep(start, backpackCheckEvent(1, END_OF_DAY_MS)), 'per_day')
  t.equal(trippedFuseLimitOfMachineStep(start, backpackCheckEvent(50, NEXT_MIDNIGHT_MS)), null)
  const rolled = stepStateMachine(backpackMachine, start, backpackHoldEvent(40, NEXT_MIDNIGHT_MS))
    .snapshot.context
  t.match(rolled, {
    day: '2026-11-22',
    spentDay: 0n,
    heldDay: 40n,
    spentMonth: 100n,
    heldMonth: 40n,
  })
  const full = createBackpackSnapshot({ fuse: fuseLimitsFromUsd(null, null, 100) })
  const month = stepStateMachine(backpackMachine, full, backpackChargeEvent(100)).snapshot
  t.equal(trippedFuseLimitOfMachineStep(month, backpackCheckEvent(1, END_OF_MONTH_MS)), 'per_month')
  t.equal(trippedFuseLimitOfMachineStep(month, backpackCheckEvent(1, START_OF_DECEMBER_MS)), null)
  t.match(
    stepStateMachine(backpackMachine, month, backpackChargeEvent(10, START_OF_DECEMBER_MS)).snapshot
      .context,
    {
      month: '2026-12',
      spentMonth: 10n,
      spentDay: 10n,
      spentTotal: 110n,
    },
  )
})

t.test('a clock that goes backwards reopens no window', async (t) => {
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
    backpackChargeEvent(50, NEXT_MIDNIGHT_MS),
    backpackChargeEvent(50, NEXT_MIDNIGHT_MS),
  ]).snapshot
  t.equal(trippedFuseLimitOfMachineStep(start, backpackCheckEvent(1, END_OF_DAY_MS)), 'per_day')
  t.equal(
    trippedFuseLimitOfMachineStep(start, backpackHoldEvent(1, BACKPACK_TEST_NOON_MS)),
    'per_day',
  )
  t.equal(
    stepStateMachine(backpackMachine, start, backpackReleaseEvent(0, BACKPACK_TEST_NOON_MS))
      .snapshot.context.day,
    '2026-11-22',
  )
  const later = createBackpackSnapshot({
    createdAt: START_OF_DECEMBER_MS,
    expiresAt: START_OF_DECEMBER_MS + 90 * DAY,
    fuse: fuseLimitsFromUsd(null, null, 5),
  })
  const spent = stepStateMachine(
    backpackMachine,
    later,
    backpackChargeEvent(5, START_OF_DECEMBER_MS),
  ).snapshot
  t.equal(trippedFuseLimitOfMachineStep(spent, backpackCheckEvent(1, END_OF_MONTH_MS)), 'per_month')
})

t.test('a call counts in the window that admitted it', async (t) => {
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
    backpackHoldEvent(30, END_OF_DAY_MS),
    backpackHoldEvent(5, NEXT_MIDNIGHT_MS),
  ]).snapshot
  t.match(start.context, { heldDay: 5n, heldMonth: 35n })
  const late = stepStateMachine(
    backpackMachine,
    start,
    backpackCaptureEvent(30, 25, NEXT_MIDNIGHT_MS, END_OF_DAY_MS),
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
    createBackpackSnapshot(),
    backpackChargeEvent(30, NEXT_MIDNIGHT_MS, END_OF_DAY_MS),
  ).snapshot.context
  t.match(soft, { spentDay: 0n, spentMonth: 30n, spentTotal: 30n, calls: 1 })
  const lastMonth = stepStateMachine(
    backpackMachine,
    createBackpackSnapshot(),
    backpackChargeEvent(30, START_OF_DECEMBER_MS, END_OF_MONTH_MS),
  ).snapshot.context
  t.match(lastMonth, { spentDay: 0n, spentMonth: 0n, spentTotal: 30n })
})

t.test('a charge of an earlier day is not limited by spending of today', async (t) => {
  const full = playEvents(backpackMachine, createBackpackSnapshot(), [
    backpackChargeEvent(50, NEXT_MIDNIGHT_MS),
    backpackChargeEvent(50, NEXT_MIDNIGHT_MS),
  ]).snapshot
  t.equal(
    trippedFuseLimitOfMachineStep(full, backpackChargeEvent(30, NEXT_MIDNIGHT_MS, END_OF_DAY_MS)),
    null,
  )
  t.equal(
    trippedFuseLimitOfMachineStep(full, backpackChargeEvent(51, NEXT_MIDNIGHT_MS, END_OF_DAY_MS)),
    'per_call',
  )
})

t.test(
  'a hold admitted while the clock was back keeps counting as held in the open window',
  async (t) => {
    const { snapshot } = playEvents(backpackMachine, createBackpackSnapshot(), [
      backpackHoldEvent(1, NEXT_MIDNIGHT_MS),
      backpackHoldEvent(30, END_OF_DAY_MS),
    ])
    t.equal(snapshot.context.heldDay, 31n)
    const { context } = stepStateMachine(
      backpackMachine,
      snapshot,
      backpackCaptureEvent(30, 30, NEXT_MIDNIGHT_MS, END_OF_DAY_MS),
    ).snapshot
    t.match(context, { heldDay: 31n, spentDay: 0n, spentTotal: 30n })
  },
)

t.test('capture and release reduce the held amount, never below zero', async (t) => {
  const held = stepStateMachine(
    backpackMachine,
    createBackpackSnapshot(),
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
    createBackpackSnapshot(),
    backpackChargeEvent(30),
  ).snapshot
  t.match(spendWindowsAt(context, END_OF_DAY_MS), { spentDay: 30n, spentMonth: 30n })
  t.match(spendWindowsAt(context, NEXT_MIDNIGHT_MS), {
    day: '2026-11-22',
    spentDay: 0n,
    spentMonth: 30n,
  })
  t.match(spendWindowsAt(context, START_OF_DECEMBER_MS), { month: '2026-12', spentMonth: 0n })
})
