import t from 'tap'
import { DAY } from '../../core/clock.ts'
import { backpack } from '../../machines/backpack.ts'
import { windowsAt } from '../../machines/fuse.ts'
import {
  NOON,
  LAST_MS,
  MIDNIGHT,
  MONTH_END,
  DECEMBER,
  fuse,
  create,
  ask,
  hold,
  charge,
  capture,
  release,
  refusal,
  limitOf,
} from './backpack-events.ts'
import { play, step } from './play.ts'

t.test('an empty tool list allows none, null allows all', async (t) => {
  t.equal(refusal(create({ tools: [] }), ask(0)), 'TOOL_NOT_ALLOWED')
  t.equal(refusal(create({ tools: null }), ask(0)), null)
})

t.test('each limit allows exactly its amount and refuses one micro more', async (t) => {
  const start = create()
  t.equal(limitOf(start, ask(50)), null)
  t.equal(limitOf(start, ask(51)), 'per_call')
  const spent = play(backpack, start, [charge(30), hold(20)]).snapshot
  t.equal(limitOf(spent, ask(40, NOON, { day: 10 })), null)
  t.equal(limitOf(spent, ask(41, NOON, { day: 10 })), 'per_day')
  t.equal(limitOf(spent, hold(41, NOON, { day: 10 })), 'per_day')
  t.equal(limitOf(spent, ask(51, NOON, { day: 100 })), 'per_call', 'the smallest window first')
  const monthly = create({ fuse: fuse(null, null, 100) })
  t.equal(limitOf(monthly, ask(60, NOON, { day: 0, month: 40 })), null)
  t.equal(limitOf(monthly, ask(61, NOON, { day: 0, month: 40 })), 'per_month')
  t.equal(limitOf(create({ fuse: fuse(null, null, null) }), ask(1_000_000_000)), null)
})

t.test('asking changes nothing', async (t) => {
  const start = create()
  t.strictSame(step(backpack, start, ask(50, MIDNIGHT)).snapshot.context, start.context)
})

t.test('a free call trips no fuse', async (t) => {
  const start = create({ fuse: fuse(0, 0, 0) })
  t.equal(refusal(start, ask(0, NOON, { day: 10 })), null)
  t.equal(refusal(start, hold(0)), null)
  t.match(step(backpack, start, charge(0)).snapshot.context, { calls: 1, spentDay: 0n })
})

t.test('a tripped fuse is told once a window and limit, with its numbers', async (t) => {
  const start = play(backpack, create(), [charge(30), hold(20)]).snapshot
  const first = step(backpack, start, ask(45, NOON, { day: 10 }))
  t.strictSame(first.facts, [
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
  const again = step(backpack, first.snapshot, hold(45, NOON, { day: 10 }))
  t.strictSame([again.limit, again.facts], ['per_day', []])
  t.strictSame(again.snapshot.context, first.snapshot.context)
  const other = step(backpack, first.snapshot, ask(51))
  t.match(other.facts, [{ limit: 'per_call', spent: 0n, limitAmount: 50n }], 'another limit')
  const tomorrow = step(backpack, other.snapshot, ask(51, MIDNIGHT))
  t.match(tomorrow.facts, [{ limit: 'per_call', window: '2026-11-22' }], 'another day')
})

t.test('the month tells by month', async (t) => {
  const start = create({ fuse: fuse(null, null, 100) })
  const first = step(backpack, start, ask(101))
  t.match(first.facts, [{ limit: 'per_month', window: '2026-11', spent: 0n, limitAmount: 100n }])
  const nextDay = step(backpack, first.snapshot, ask(101, MIDNIGHT))
  t.strictSame([nextDay.limit, nextDay.facts], ['per_month', []])
  t.match(step(backpack, nextDay.snapshot, ask(101, DECEMBER)).facts, [{ window: '2026-12' }])
})

t.test('a fuse told on a later day is not told again when the clock goes back', async (t) => {
  const told = step(backpack, create(), ask(51, MIDNIGHT)).snapshot
  t.equal(told.context.day, '2026-11-22')
  t.strictSame(step(backpack, told, ask(51, LAST_MS)).facts, [])
})

t.test('a charge checks the limits again, without what others reserve', async (t) => {
  const start = play(backpack, create(), [charge(50), hold(20)]).snapshot
  t.equal(limitOf(start, charge(30)), null)
  t.equal(limitOf(start, charge(31)), 'per_day')
  t.equal(limitOf(start, charge(51)), 'per_call')
  const tripped = step(backpack, start, charge(31))
  t.match(tripped.facts, [{ type: 'fuse.tripped', spent: 70n, needed: 31n }])
  t.equal(tripped.snapshot.context.spentDay, 50n)
  t.equal(limitOf(create({ fuse: fuse(null, null, 10) }), charge(11)), 'per_month')
})

t.test('days and months roll at UTC midnight', async (t) => {
  const start = play(backpack, create(), [charge(50), charge(50)]).snapshot
  t.equal(limitOf(start, ask(1, LAST_MS)), 'per_day')
  t.equal(limitOf(start, ask(50, MIDNIGHT)), null)
  const rolled = step(backpack, start, hold(40, MIDNIGHT)).snapshot.context
  t.match(rolled, {
    day: '2026-11-22',
    spentDay: 0n,
    heldDay: 40n,
    spentMonth: 100n,
    heldMonth: 40n,
  })
  const full = create({ fuse: fuse(null, null, 100) })
  const month = step(backpack, full, charge(100)).snapshot
  t.equal(limitOf(month, ask(1, MONTH_END)), 'per_month')
  t.equal(limitOf(month, ask(1, DECEMBER)), null)
  t.match(step(backpack, month, charge(10, DECEMBER)).snapshot.context, {
    month: '2026-12',
    spentMonth: 10n,
    spentDay: 10n,
    spentTotal: 110n,
  })
})

t.test('a clock that goes back opens no window again', async (t) => {
  const start = play(backpack, create(), [charge(50, MIDNIGHT), charge(50, MIDNIGHT)]).snapshot
  t.equal(limitOf(start, ask(1, LAST_MS)), 'per_day')
  t.equal(limitOf(start, hold(1, NOON)), 'per_day')
  t.equal(step(backpack, start, release(0, NOON)).snapshot.context.day, '2026-11-22')
  const later = create({
    createdAt: DECEMBER,
    expiresAt: DECEMBER + 90 * DAY,
    fuse: fuse(null, null, 5),
  })
  const spent = step(backpack, later, charge(5, DECEMBER)).snapshot
  t.equal(limitOf(spent, ask(1, MONTH_END)), 'per_month')
})

t.test('a call counts in the window that admitted it', async (t) => {
  const start = play(backpack, create(), [hold(30, LAST_MS), hold(5, MIDNIGHT)]).snapshot
  t.match(start.context, { heldDay: 5n, heldMonth: 35n })
  const late = step(backpack, start, capture(30, 25, MIDNIGHT, LAST_MS)).snapshot.context
  t.match(late, {
    heldDay: 5n,
    spentDay: 0n,
    heldMonth: 5n,
    spentMonth: 25n,
    spentTotal: 25n,
    calls: 1,
  })
  const soft = step(backpack, create(), charge(30, MIDNIGHT, LAST_MS)).snapshot.context
  t.match(soft, { spentDay: 0n, spentMonth: 30n, spentTotal: 30n, calls: 1 })
  const lastMonth = step(backpack, create(), charge(30, DECEMBER, MONTH_END)).snapshot.context
  t.match(lastMonth, { spentDay: 0n, spentMonth: 0n, spentTotal: 30n })
})

t.test("yesterday's charge is not stopped by today's spending", async (t) => {
  const full = play(backpack, create(), [charge(50, MIDNIGHT), charge(50, MIDNIGHT)]).snapshot
  t.equal(limitOf(full, charge(30, MIDNIGHT, LAST_MS)), null)
  t.equal(limitOf(full, charge(51, MIDNIGHT, LAST_MS)), 'per_call')
})

t.test(
  'a hold admitted while the clock was back keeps counting as held in the open window',
  async (t) => {
    const { snapshot } = play(backpack, create(), [hold(1, MIDNIGHT), hold(30, LAST_MS)])
    t.equal(snapshot.context.heldDay, 31n)
    const { context } = step(backpack, snapshot, capture(30, 30, MIDNIGHT, LAST_MS)).snapshot
    t.match(context, { heldDay: 31n, spentDay: 0n, spentTotal: 30n })
  },
)

t.test('capture and release free what was held, never below zero', async (t) => {
  const held = step(backpack, create(), hold(40)).snapshot
  t.match(step(backpack, held, capture(40, 25)).snapshot.context, {
    heldDay: 0n,
    spentDay: 25n,
    heldMonth: 0n,
    spentMonth: 25n,
    calls: 1,
  })
  t.match(step(backpack, held, release(40)).snapshot.context, {
    heldDay: 0n,
    heldMonth: 0n,
    calls: 0,
  })
  t.match(step(backpack, held, release(41)).snapshot.context, { heldDay: 0n, heldMonth: 0n })
})

t.test('windowsAt shows the counters as they stand', async (t) => {
  const { context } = step(backpack, create(), charge(30)).snapshot
  t.match(windowsAt(context, LAST_MS), { spentDay: 30n, spentMonth: 30n })
  t.match(windowsAt(context, MIDNIGHT), { day: '2026-11-22', spentDay: 0n, spentMonth: 30n })
  t.match(windowsAt(context, DECEMBER), { month: '2026-12', spentMonth: 0n })
})
