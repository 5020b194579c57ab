import t from 'tap'
import type { ActorSnapshot } from '../../actors/machine-registry.ts'
import { HOUR } from '../../core/clock.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import {
  visitorFreeAllowanceReducer,
  type VisitorFreeAllowanceReducerEvent,
} from '../../machines/visitor-free-allowance-reducer.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  shortestEventPaths,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = ActorSnapshot<'visitor'>
const NOON = Date.UTC(2026, 10, 21, 12)
const LAST_MS = Date.UTC(2026, 10, 22) - 1
const MIDNIGHT = Date.UTC(2026, 10, 22)

const start = (): Snapshot => stepMachineToInitialState(visitorFreeAllowanceReducer, {}).snapshot
const ask = (reserved: number, at = NOON, tool = 'web_search', limit = 2) =>
  ({ type: 'ASK', tool, limit, reserved, at }) as const
const use = (at = NOON, tool = 'web_search', limit = 2) =>
  ({ type: 'USE', tool, limit, at }) as const
const giveBack = (usedAt: number, at = NOON, tool = 'web_search') =>
  ({ type: 'GIVE_BACK', tool, usedAt, at }) as const
const NOBODY = { since: 0, agents: 0 }
const join = (agents: number, at = NOON, { limit = 10, fills = agents > 1 } = {}) =>
  ({ type: 'JOIN', agents, limit, fills, at }) as const
const refusal = (snapshot: Snapshot, event: VisitorFreeAllowanceReducerEvent) =>
  stepStateMachine(visitorFreeAllowanceReducer, snapshot, event).refused

t.test('a visitor starts without a day', async (t) => {
  t.strictSame(start().context, { day: '', used: {}, newcomers: NOBODY })
})

t.test('a check counts used and running calls and changes nothing', async (t) => {
  t.equal(refusal(start(), ask(1)), null)
  t.equal(refusal(start(), ask(2)), 'free_tier_exhausted')
  const once = stepStateMachine(visitorFreeAllowanceReducer, start(), use()).snapshot
  t.equal(refusal(once, ask(0)), null)
  t.equal(refusal(once, ask(1)), 'free_tier_exhausted')
  t.strictSame(
    stepStateMachine(visitorFreeAllowanceReducer, once, ask(0)).snapshot.context,
    once.context,
  )
})

t.test('the limit of a tool is reached exactly and counts separately per tool', async (t) => {
  const { snapshot } = stepMachineThroughEvents(visitorFreeAllowanceReducer, start(), [
    use(),
    use(),
  ])
  t.match(snapshot.context, { day: '2026-11-21', used: { web_search: 2 } })
  const third = stepStateMachine(visitorFreeAllowanceReducer, snapshot, use())
  t.equal(third.refused, 'free_tier_exhausted')
  t.strictSame(third.snapshot.context, snapshot.context)
  t.equal(refusal(snapshot, use(NOON, 'price_feed')), null)
  t.equal(refusal(start(), use(NOON, 'paid_tool', 0)), 'free_tier_exhausted')
})

t.test('a UTC day ends at midnight and the next starts empty', async (t) => {
  const { snapshot } = stepMachineThroughEvents(visitorFreeAllowanceReducer, start(), [
    use(),
    use(NOON, 'price_feed'),
    use(),
  ])
  t.equal(refusal(snapshot, use(LAST_MS)), 'free_tier_exhausted')
  const next = stepStateMachine(visitorFreeAllowanceReducer, snapshot, use(MIDNIGHT))
  t.equal(next.refused, null)
  t.strictSame(next.snapshot.context.used, { web_search: 1 })
  t.equal(next.snapshot.context.day, '2026-11-22')
})

t.test('a clock that goes backwards does not reopen the previous day', async (t) => {
  const { snapshot } = stepMachineThroughEvents(visitorFreeAllowanceReducer, start(), [
    use(MIDNIGHT),
    use(MIDNIGHT),
  ])
  t.equal(refusal(snapshot, ask(0, LAST_MS)), 'free_tier_exhausted')
  t.equal(refusal(snapshot, use(LAST_MS)), 'free_tier_exhausted')
  t.equal(snapshot.context.day, '2026-11-22')
})

t.test('a failed call returns its slot on the same day only', async (t) => {
  const { snapshot } = stepMachineThroughEvents(visitorFreeAllowanceReducer, start(), [
    use(),
    use(),
  ])
  t.strictSame(
    stepStateMachine(visitorFreeAllowanceReducer, snapshot, giveBack(NOON)).snapshot.context.used,
    {
      web_search: 1,
    },
  )
  const tomorrow = stepStateMachine(visitorFreeAllowanceReducer, snapshot, use(MIDNIGHT)).snapshot
  const late = stepStateMachine(visitorFreeAllowanceReducer, tomorrow, giveBack(LAST_MS, MIDNIGHT))
  t.equal(late.refused, null)
  t.strictSame(late.snapshot.context, tomorrow.context)
})

t.test('an unused slot cannot be returned, and a counter at zero is removed', async (t) => {
  const empty = stepStateMachine(visitorFreeAllowanceReducer, start(), giveBack(NOON))
  t.equal(empty.refused, null)
  t.strictSame(empty.snapshot.context.used, {})
  const { snapshot } = stepMachineThroughEvents(visitorFreeAllowanceReducer, start(), [
    use(),
    giveBack(NOON),
  ])
  t.strictSame(snapshot.context.used, {})
  t.strictSame(
    stepStateMachine(visitorFreeAllowanceReducer, snapshot, giveBack(NOON)).snapshot.context,
    snapshot.context,
  )
})

t.test('a limited number of agents joins per hour, which starts with the first', async (t) => {
  const { snapshot } = stepMachineThroughEvents(
    visitorFreeAllowanceReducer,
    start(),
    Array.from({ length: 9 }, () => join(1)),
  )
  t.strictSame(snapshot.context.newcomers, { since: NOON, agents: 9 })
  const full = stepStateMachine(
    visitorFreeAllowanceReducer,
    snapshot,
    join(1, NOON + HOUR - 1),
  ).snapshot
  t.strictSame(full.context.newcomers, { since: NOON, agents: 10 })
  t.equal(refusal(full, join(1, NOON + HOUR - 1)), 'rate_limited')
  t.equal(refusal(full, join(1, NOON - HOUR)), 'rate_limited', 'no hour comes back')
  const next = stepStateMachine(visitorFreeAllowanceReducer, full, join(1, NOON + HOUR)).snapshot
  t.strictSame(next.context.newcomers, { since: NOON + HOUR, agents: 1 })
})

t.test('a batch above the hourly limit needs an unused hour and fills it', async (t) => {
  const batch = stepStateMachine(visitorFreeAllowanceReducer, start(), join(20)).snapshot
  t.strictSame(batch.context.newcomers, { since: NOON, agents: 20 })
  for (const agents of [1, 2, 20]) t.equal(refusal(batch, join(agents)), 'rate_limited')
  const begun = stepStateMachine(visitorFreeAllowanceReducer, start(), join(1)).snapshot
  t.equal(refusal(begun, join(10)), 'rate_limited')
  const fits = stepStateMachine(visitorFreeAllowanceReducer, begun, join(9)).snapshot
  t.strictSame(fits.context.newcomers, { since: NOON, agents: 10 })
  const small = stepStateMachine(visitorFreeAllowanceReducer, start(), join(2)).snapshot
  t.equal(refusal(small, join(1)), 'rate_limited', 'a small one fills it too')
  const counted = stepStateMachine(
    visitorFreeAllowanceReducer,
    start(),
    join(2, NOON, { fills: false }),
  ).snapshot
  t.strictSame(counted.context.newcomers, { since: NOON, agents: 2 })
})

t.test('agents that did not join are subtracted from their own hour only', async (t) => {
  const leave = (agents: number, since = NOON) => ({ type: 'LEAVE', agents, since }) as const
  const { snapshot } = stepMachineThroughEvents(visitorFreeAllowanceReducer, start(), [
    join(1),
    join(1),
  ])
  t.equal(
    stepStateMachine(visitorFreeAllowanceReducer, snapshot, leave(1)).snapshot.context.newcomers
      .agents,
    1,
  )
  t.equal(
    stepStateMachine(visitorFreeAllowanceReducer, snapshot, leave(3)).snapshot.context.newcomers
      .agents,
    0,
  )
  const late = stepStateMachine(visitorFreeAllowanceReducer, snapshot, leave(1, NOON - HOUR))
  t.equal(late.refused, null)
  t.equal(late.snapshot.context.newcomers.agents, 2)
})

t.test('an unknown event is rejected', async (t) => {
  t.equal(refusal(start(), { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('on all paths counters stay between one and the limit, and no day reopens', async (t) => {
  const events = [NOON, LAST_MS, MIDNIGHT].flatMap((at): VisitorFreeAllowanceReducerEvent[] => [
    ask(1, at),
    use(at),
    use(at, 'price_feed'),
    giveBack(at, at),
    giveBack(NOON, at, 'price_feed'),
  ])
  const bucket = ({ context }: Snapshot) => stringifyWithBigints(context)
  const walks = shortestEventPaths(visitorFreeAllowanceReducer, start(), events, bucket, 20_000)
  t.ok(walks.length > 10, `${walks.length} paths`)
  for (const walk of walks) {
    let snapshot = start()
    for (const event of walk) {
      const next = stepStateMachine(visitorFreeAllowanceReducer, snapshot, event).snapshot
      if (next.context.day < snapshot.context.day) t.fail('a day came back', { walk })
      snapshot = next
    }
    const counts = Object.values(snapshot.context.used)
    if (counts.some((count) => count < 1 || count > 2)) t.fail('a counter is off', { walk })
  }
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('visitor-v1.json')) {
    const snapshot = restoreSnapshot(visitorFreeAllowanceReducer, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    t.equal(refusal(snapshot, use(Date.UTC(2027, 0, 1))), null)
  }
})
