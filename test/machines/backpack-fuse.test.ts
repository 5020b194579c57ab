import t from 'tap'
import { DAY } from '../../core/clock.ts'
import { backpackMachine } from '../../machines/backpack-machine.ts'
import { spendWindowsAt } from '../../machines/backpack/fuse-limits.ts'
import {
  NOON_MS,
  END_OF_DAY_MS,
  NEXT_MIDNIGHT_MS,
  END_OF_MONTH_MS,
  START_OF_DECEMBER_MS,
  fuseLimitsOf,
  createBackpackSnapshot,
  checkEvent,
  holdEvent,
  chargeEvent,
  captureEvent,
  releaseEvent,
  rejectionCodeOf,
  trippedLimitOf,
} from '../support/machines/backpack-events.ts'
import { playEvents, stepMachine } from '../support/machines/machine-harness.ts'

t.test('an empty tool list allows none, null allows all', async (t) => {
  t.equal(rejectionCodeOf(createBackpackSnapshot({ tools: [] }), checkEvent(0)), 'TOOL_NOT_ALLOWED')
  t.equal(rejectionCodeOf(createBackpackSnapshot({ tools: null }), checkEvent(0)), null)
})

t.test('each limit allows exactly its amount and refuses one micro more', async (t) => {
  const start = createBackpackSnapshot()
  t.equal(trippedLimitOf(start, checkEvent(50)), null)
  t.equal(trippedLimitOf(start, checkEvent(51)), 'per_call')
  const spent = playEvents(backpackMachine, start, [chargeEvent(30), holdEvent(20)]).snapshot
  t.equal(trippedLimitOf(spent, checkEvent(40, NOON_MS, { day: 10 })), null)
  t.equal(trippedLimitOf(spent, checkEvent(41, NOON_MS, { day: 10 })), 'per_day')
  t.equal(trippedLimitOf(spent, holdEvent(41, NOON_MS, { day: 10 })), 'per_day')
  t.equal(
    trippedLimitOf(spent, checkEvent(51, NOON_MS, { day: 100 })),
    'per_call',
    'the smallest window first',
  )
  const monthly = createBackpackSnapshot({ fuse: fuseLimitsOf(null, null, 100) })
  t.equal(trippedLimitOf(monthly, checkEvent(60, NOON_MS, { day: 0, month: 40 })), null)
  t.equal(trippedLimitOf(monthly, checkEvent(61, NOON_MS, { day: 0, month: 40 })), 'per_month')
  t.equal(
    trippedLimitOf(
      createBackpackSnapshot({ fuse: fuseLimitsOf(null, null, null) }),
      checkEvent(1_000_000_000),
    ),
    null,
  )
})

t.test('asking changes nothing', async (t) => {
  const start = createBackpackSnapshot()
  t.strictSame(
    stepMachine(backpackMachine, start, checkEvent(50, NEXT_MIDNIGHT_MS)).snapshot.context,
    start.context,
  )
})

t.test('a free call trips no fuse', async (t) => {
  const start = createBackpackSnapshot({ fuse: fuseLimitsOf(0, 0, 0) })
  t.equal(rejectionCodeOf(start, checkEvent(0, NOON_MS, { day: 10 })), null)
  t.equal(rejectionCodeOf(start, holdEvent(0)), null)
  t.match(stepMachine(backpackMachine, start, chargeEvent(0)).snapshot.context, {
    calls: 1,
    spentDay: 0n,
  })
})

t.test('a tripped fuse emits once per window and limit, with its numbers', async (t) => {
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
    chargeEvent(30),
    holdEvent(20),
  ]).snapshot
  const first = stepMachine(backpackMachine, start, checkEvent(45, NOON_MS, { day: 10 }))
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
  const again = stepMachine(backpackMachine, first.snapshot, holdEvent(45, NOON_MS, { day: 10 }))
  t.strictSame([again.limit, again.emitted], ['per_day', []])
  t.strictSame(again.snapshot.context, first.snapshot.context)
  const other = stepMachine(backpackMachine, first.snapshot, checkEvent(51))
  t.match(other.emitted, [{ limit: 'per_call', spent: 0n, limitAmount: 50n }], 'another limit')
  const tomorrow = stepMachine(backpackMachine, other.snapshot, checkEvent(51, NEXT_MIDNIGHT_MS))
  t.match(tomorrow.emitted, [{ limit: 'per_call', window: '2026-11-22' }], 'another day')
})

t.test('the monthly limit emits once per month', async (t) => {
  const start = createBackpackSnapshot({ fuse: fuseLimitsOf(null, null, 100) })
  const first = stepMachine(backpackMachine, start, checkEvent(101))
  t.match(first.emitted, [{ limit: 'per_month', window: '2026-11', spent: 0n, limitAmount: 100n }])
  const nextDay = stepMachine(backpackMachine, first.snapshot, checkEvent(101, NEXT_MIDNIGHT_MS))
  t.strictSame([nextDay.limit, nextDay.emitted], ['per_month', []])
  t.match(
    stepMachine(backpackMachine, nextDay.snapshot, checkEvent(101, START_OF_DECEMBER_MS)).emitted,
    [{ window: '2026-12' }],
  )
})

t.test('a fuse emitted on a later day is not emitted again when the clock goes back', async (t) => {
  const told = stepMachine(
    backpackMachine,
    createBackpackSnapshot(),
    checkEvent(51, NEXT_MIDNIGHT_MS),
  ).snapshot
  t.equal(told.context.day, '2026-11-22')
  t.strictSame(stepMachine(backpackMachine, told, checkEvent(51, END_OF_DAY_MS)).emitted, [])
})

t.test('a charge checks the limits again, without the reservations of other calls', async (t) => {
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
    chargeEvent(50),
    holdEvent(20),
  ]).snapshot
  t.equal(trippedLimitOf(start, chargeEvent(30)), null)
  t.equal(trippedLimitOf(start, chargeEvent(31)), 'per_day')
  t.equal(trippedLimitOf(start, chargeEvent(51)), 'per_call')
  const tripped = stepMachine(backpackMachine, start, chargeEvent(31))
  t.match(tripped.emitted, [{ type: 'fuse.tripped', spent: 70n, needed: 31n }])
  t.equal(tripped.snapshot.context.spentDay, 50n)
  t.equal(
    trippedLimitOf(createBackpackSnapshot({ fuse: fuseLimitsOf(null, null, 10) }), chargeEvent(11)),
    'per_month',
  )
})

t.test('days and months roll at UTC midnight', async (t) => {
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
    chargeEvent(50),
    chargeEvent(50),
  ]).snapshot
  t.equal(trippedLimitOf(start, checkEvent(1, END_OF_DAY_MS)), 'per_day')
  t.equal(trippedLimitOf(start, checkEvent(50, NEXT_MIDNIGHT_MS)), null)
  const rolled = stepMachine(backpackMachine, start, holdEvent(40, NEXT_MIDNIGHT_MS)).snapshot
    .context
  t.match(rolled, {
    day: '2026-11-22',
    spentDay: 0n,
    heldDay: 40n,
    spentMonth: 100n,
    heldMonth: 40n,
  })
  const full = createBackpackSnapshot({ fuse: fuseLimitsOf(null, null, 100) })
  const month = stepMachine(backpackMachine, full, chargeEvent(100)).snapshot
  t.equal(trippedLimitOf(month, checkEvent(1, END_OF_MONTH_MS)), 'per_month')
  t.equal(trippedLimitOf(month, checkEvent(1, START_OF_DECEMBER_MS)), null)
  t.match(
    stepMachine(backpackMachine, month, chargeEvent(10, START_OF_DECEMBER_MS)).snapshot.context,
    {
      month: '2026-12',
      spentMonth: 10n,
      spentDay: 10n,
      spentTotal: 110n,
    },
  )
})

t.test('a clock that goes back reopens no window', async (t) => {
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
    chargeEvent(50, NEXT_MIDNIGHT_MS),
    chargeEvent(50, NEXT_MIDNIGHT_MS),
  ]).snapshot
  t.equal(trippedLimitOf(start, checkEvent(1, END_OF_DAY_MS)), 'per_day')
  t.equal(trippedLimitOf(start, holdEvent(1, NOON_MS)), 'per_day')
  t.equal(
    stepMachine(backpackMachine, start, releaseEvent(0, NOON_MS)).snapshot.context.day,
    '2026-11-22',
  )
  const later = createBackpackSnapshot({
    createdAt: START_OF_DECEMBER_MS,
    expiresAt: START_OF_DECEMBER_MS + 90 * DAY,
    fuse: fuseLimitsOf(null, null, 5),
  })
  const spent = stepMachine(backpackMachine, later, chargeEvent(5, START_OF_DECEMBER_MS)).snapshot
  t.equal(trippedLimitOf(spent, checkEvent(1, END_OF_MONTH_MS)), 'per_month')
})

t.test('a call counts in the window that admitted it', async (t) => {
  const start = playEvents(backpackMachine, createBackpackSnapshot(), [
    holdEvent(30, END_OF_DAY_MS),
    holdEvent(5, NEXT_MIDNIGHT_MS),
  ]).snapshot
  t.match(start.context, { heldDay: 5n, heldMonth: 35n })
  const late = stepMachine(
    backpackMachine,
    start,
    captureEvent(30, 25, NEXT_MIDNIGHT_MS, END_OF_DAY_MS),
  ).snapshot.context
  t.match(late, {
    heldDay: 5n,
    spentDay: 0n,
    heldMonth: 5n,
    spentMonth: 25n,
    spentTotal: 25n,
    calls: 1,
  })
  const soft = stepMachine(
    backpackMachine,
    createBackpackSnapshot(),
    chargeEvent(30, NEXT_MIDNIGHT_MS, END_OF_DAY_MS),
  ).snapshot.context
  t.match(soft, { spentDay: 0n, spentMonth: 30n, spentTotal: 30n, calls: 1 })
  const lastMonth = stepMachine(
    backpackMachine,
    createBackpackSnapshot(),
    chargeEvent(30, START_OF_DECEMBER_MS, END_OF_MONTH_MS),
  ).snapshot.context
  t.match(lastMonth, { spentDay: 0n, spentMonth: 0n, spentTotal: 30n })
})

t.test("yesterday's charge is not stopped by today's spending", async (t) => {
  const full = playEvents(backpackMachine, createBackpackSnapshot(), [
    chargeEvent(50, NEXT_MIDNIGHT_MS),
    chargeEvent(50, NEXT_MIDNIGHT_MS),
  ]).snapshot
  t.equal(trippedLimitOf(full, chargeEvent(30, NEXT_MIDNIGHT_MS, END_OF_DAY_MS)), null)
  t.equal(trippedLimitOf(full, chargeEvent(51, NEXT_MIDNIGHT_MS, END_OF_DAY_MS)), 'per_call')
})

t.test(
  'a hold admitted while the clock was back keeps counting as held in the open window',
  async (t) => {
    const { snapshot } = playEvents(backpackMachine, createBackpackSnapshot(), [
      holdEvent(1, NEXT_MIDNIGHT_MS),
      holdEvent(30, END_OF_DAY_MS),
    ])
    t.equal(snapshot.context.heldDay, 31n)
    const { context } = stepMachine(
      backpackMachine,
      snapshot,
      captureEvent(30, 30, NEXT_MIDNIGHT_MS, END_OF_DAY_MS),
    ).snapshot
    t.match(context, { heldDay: 31n, spentDay: 0n, spentTotal: 30n })
  },
)

t.test('capture and release reduce the held amount, never below zero', async (t) => {
  const held = stepMachine(backpackMachine, createBackpackSnapshot(), holdEvent(40)).snapshot
  t.match(stepMachine(backpackMachine, held, captureEvent(40, 25)).snapshot.context, {
    heldDay: 0n,
    spentDay: 25n,
    heldMonth: 0n,
    spentMonth: 25n,
    calls: 1,
  })
  t.match(stepMachine(backpackMachine, held, releaseEvent(40)).snapshot.context, {
    heldDay: 0n,
    heldMonth: 0n,
    calls: 0,
  })
  t.match(stepMachine(backpackMachine, held, releaseEvent(41)).snapshot.context, {
    heldDay: 0n,
    heldMonth: 0n,
  })
})

t.test('windowsAt shows the counters as they stand', async (t) => {
  const { context } = stepMachine(
    backpackMachine,
    createBackpackSnapshot(),
    chargeEvent(30),
  ).snapshot
  t.match(spendWindowsAt(context, END_OF_DAY_MS), { spentDay: 30n, spentMonth: 30n })
  t.match(spendWindowsAt(context, NEXT_MIDNIGHT_MS), {
    day: '2026-11-22',
    spentDay: 0n,
    spentMonth: 30n,
  })
  t.match(spendWindowsAt(context, START_OF_DECEMBER_MS), { month: '2026-12', spentMonth: 0n })
})
