import t from 'tap'
import { DAY } from '../../core/clock.ts'
import { encode } from '../../core/codec.ts'
import { least, ZERO } from '../../core/money.ts'
import { backpack, type BackpackEvent } from '../../machines/backpack.ts'
import {
  type Snapshot,
  NOON,
  MIDNIGHT,
  EXPIRES,
  fuse,
  input,
  create,
  ask,
  hold,
  charge,
  capture,
  release,
  revoke,
  renew,
  alarm,
  refusal,
  limitOf,
} from './backpack-events.ts'
import { begin, golden, paths, play, resolve, step, usd } from './play.ts'

t.test('a new Backpack is far from its expiry and sets its three timers', async (t) => {
  const { snapshot, timers } = begin(backpack, input())
  t.strictSame(snapshot.value, { active: 'far' })
  t.strictSame(timers, {
    'xstate.after.weekBefore.backpack.active': 83 * DAY,
    'xstate.after.dayBefore.backpack.active': 89 * DAY,
    'xstate.after.expiry.backpack.active': 90 * DAY,
  })
  t.match(snapshot.context, {
    day: '2026-11-21',
    month: '2026-11',
    spentTotal: 0n,
    calls: 0,
    told: {},
  })
})

t.test('a Backpack made shortly before its expiry starts there and tells nothing', async (t) => {
  const cases = [
    [7 * DAY, 'far'],
    [7 * DAY - 1, 'week'],
    [DAY, 'week'],
    [DAY - 1, 'day'],
  ] as const
  for (const [left, state] of cases) {
    const { snapshot, facts, timers } = begin(backpack, input({ expiresAt: NOON + left }))
    t.strictSame(snapshot.value, { active: state })
    t.strictSame(facts, [])
    t.equal(timers['xstate.after.expiry.backpack.active'], left)
  }
})

t.test('timers warn 7 days and 1 day before, then it expires', async (t) => {
  const week = step(backpack, create(), alarm('weekBefore'))
  t.strictSame(week.snapshot.value, { active: 'week' })
  t.strictSame(week.facts, [{ type: 'backpack.expiring', days: 7 }])
  t.strictSame(week.cancelled, [], 'the other timers go on')
  const day = step(backpack, week.snapshot, alarm('dayBefore'))
  t.strictSame(day.snapshot.value, { active: 'day' })
  t.strictSame(day.facts, [{ type: 'backpack.expiring', days: 1 }])
  const expired = step(backpack, day.snapshot, alarm('expiry'))
  t.equal(expired.snapshot.value, 'expired')
  t.strictSame(expired.facts, [])
})

t.test('an alarm that comes late or twice warns nobody', async (t) => {
  const { snapshot } = step(backpack, create(), alarm('dayBefore'))
  for (const late of [alarm('weekBefore'), alarm('dayBefore')]) {
    const outcome = step(backpack, snapshot, late)
    t.strictSame([outcome.refused, outcome.facts], [null, []])
    t.strictSame(outcome.snapshot.value, { active: 'day' })
  }
  const revoked = step(backpack, snapshot, revoke).snapshot
  t.equal(step(backpack, revoked, alarm('expiry')).snapshot.value, 'revoked')
})

t.test('expiry by the clock refuses before the alarm has come, in the right order', async (t) => {
  const strict = create({ tools: ['price_feed'], fuse: fuse(0, 0, 0) })
  t.equal(refusal(strict, ask(1, EXPIRES)), 'EXPIRED')
  t.equal(refusal(strict, hold(1, EXPIRES)), 'EXPIRED')
  t.equal(refusal(strict, ask(1, EXPIRES - 1)), 'TOOL_NOT_ALLOWED')
  t.equal(refusal(strict, ask(0, EXPIRES - 1)), 'TOOL_NOT_ALLOWED', 'a free call too')
  t.equal(limitOf(strict, ask(1, EXPIRES - 1, {}, 'price_feed')), 'per_call')
  t.equal(refusal(strict, { type: 'SET', tools: null, at: EXPIRES }), 'EXPIRED')
  t.equal(refusal(strict, { type: 'SET', tools: null, at: EXPIRES - 1 }), null)
})

t.test('set changes what it names', async (t) => {
  const { snapshot } = step(backpack, create(), {
    type: 'SET',
    fuse: fuse(1, null, null),
    at: NOON,
  })
  t.equal(snapshot.context.tools, null)
  t.equal(limitOf(snapshot, ask(2)), 'per_call')
  const listed = step(backpack, snapshot, { type: 'SET', tools: ['price_feed'], at: NOON }).snapshot
  t.equal(refusal(listed, ask(0)), 'TOOL_NOT_ALLOWED')
  t.equal(listed.context.fuse.perCall, 1n)
  const pager = { webhookUrl: 'https://example.com/hook', ownerEmail: null, ownerTelegram: null }
  const all = step(backpack, listed, { type: 'SET', tools: null, pager, at: NOON }).snapshot
  t.match(all.context, { tools: null, pager })
})

t.test('an expired Backpack settles what was admitted and refuses the rest', async (t) => {
  const { snapshot } = play(backpack, create(), [hold(40), alarm('expiry')])
  for (const event of [ask(0), hold(0), { type: 'SET', tools: [], at: NOON } as const]) {
    t.equal(refusal(snapshot, event), 'EXPIRED', event.type)
  }
  t.equal(refusal(snapshot, charge(10)), null)
  t.equal(limitOf(snapshot, charge(51)), 'per_call')
  t.equal(refusal(snapshot, capture(40, 40)), null)
  t.equal(refusal(snapshot, release(40)), null)
  t.equal(step(backpack, snapshot, revoke).snapshot.value, 'revoked')
})

t.test('a revoked Backpack stops charges at once and only settles durable holds', async (t) => {
  const { snapshot, cancelled } = play(backpack, create(), [hold(40), revoke])
  t.equal(cancelled.length, 3, 'its timers are gone')
  const set = { type: 'SET', tools: [], at: NOON } as const
  for (const event of [ask(0), hold(0), charge(0), set, renew(EXPIRES + DAY)]) {
    const outcome = step(backpack, snapshot, event)
    t.equal(outcome.refused, 'REVOKED', event.type)
    t.equal(outcome.snapshot.value, 'revoked')
  }
  t.equal(step(backpack, snapshot, revoke).refused, null, 'to say it twice is no fault')
  t.match(step(backpack, snapshot, capture(40, 30)).snapshot, {
    value: 'revoked',
    context: { heldDay: 0n, spentDay: 30n },
  })
  t.equal(refusal(snapshot, release(40)), null)
})

t.test('renewal starts the timers again from where it now stands', async (t) => {
  const warned = step(backpack, create(), alarm('weekBefore')).snapshot
  const at = EXPIRES - 3 * DAY
  const renewed = step(backpack, warned, renew(at + 30 * DAY, at))
  t.strictSame(renewed.snapshot.value, { active: 'far' })
  t.strictSame(renewed.timers, {
    'xstate.after.weekBefore.backpack.active': 23 * DAY,
    'xstate.after.dayBefore.backpack.active': 29 * DAY,
    'xstate.after.expiry.backpack.active': 30 * DAY,
  })
  t.strictSame(renewed.cancelled, Object.keys(renewed.timers))
  t.match(step(backpack, renewed.snapshot, alarm('weekBefore')).facts, [{ days: 7 }], 'warned anew')
  const short = step(backpack, create({ expiresAt: NOON + DAY }), renew(NOON + 2 * DAY))
  t.strictSame([short.snapshot.value, short.facts], [{ active: 'week' }, []])
})

t.test('a renewal that ends earlier changes nothing: the later end holds', async (t) => {
  for (const end of [NOON + 1, EXPIRES - 1, EXPIRES]) {
    const kept = step(backpack, create(), renew(end))
    t.equal(kept.refused, null)
    t.equal(kept.snapshot.context.expiresAt, EXPIRES)
    t.strictSame([kept.timers, kept.cancelled, kept.facts], [{}, [], []])
  }
  t.equal(step(backpack, create(), renew(EXPIRES + 1)).snapshot.context.expiresAt, EXPIRES + 1)
})

t.test('spending beside tools is permitted by its name only', async (t) => {
  const named = create({ tools: ['price_feed', 'agent_send', 'purchase'] })
  t.equal(refusal(named, ask(1, NOON, {}, 'agent_send')), null)
  t.equal(refusal(named, ask(1, NOON, {}, 'purchase')), null)
  t.equal(refusal(named, ask(1, NOON, {}, 'pack_install')), null, 'a pack is a purchase')
  t.equal(refusal(named, ask(1, NOON, {}, 'tip')), 'TOOL_NOT_ALLOWED')
  t.equal(refusal(create({ tools: ['pack_install'] }), ask(1, NOON, {}, 'pack_install')), null)
  t.equal(
    refusal(create({ tools: ['pack_install'] }), ask(1, NOON, {}, 'purchase')),
    'TOOL_NOT_ALLOWED',
  )
  const all = create({ tools: null })
  for (const name of ['agent_send', 'tip', 'bounty', 'purchase', 'pack_install'])
    t.equal(refusal(all, ask(1, NOON, {}, name)), 'TOOL_NOT_ALLOWED', `${name} is not among all`)
})

t.test('renewal revives an expired Backpack with its counters', async (t) => {
  const { snapshot } = play(backpack, create(), [charge(30), alarm('expiry')])
  const renewed = step(backpack, snapshot, renew(EXPIRES + 90 * DAY, EXPIRES))
  t.strictSame(renewed.snapshot.value, { active: 'far' })
  t.equal(Object.keys(renewed.timers).length, 3)
  t.equal(renewed.snapshot.context.spentTotal, 30n)
  t.equal(refusal(renewed.snapshot, ask(1, EXPIRES)), null)
})

t.test('renewal into the past is refused', async (t) => {
  const expired = step(backpack, create(), alarm('expiry')).snapshot
  for (const snapshot of [create(), expired]) {
    const outcome = step(backpack, snapshot, renew(NOON, NOON))
    t.equal(outcome.refused, 'invalid_input')
    t.strictSame(outcome.snapshot.context, snapshot.context)
    t.equal(refusal(snapshot, renew(NOON + 1, NOON)), null)
  }
})

t.test('unknown events are refused by every state', async (t) => {
  const unknown = { type: 'NO_SUCH_EVENT' } as never
  t.equal(refusal(create(), unknown), 'internal')
  t.equal(refusal(step(backpack, create(), alarm('expiry')).snapshot, unknown), 'EXPIRED')
  t.equal(refusal(step(backpack, create(), revoke).snapshot, unknown), 'REVOKED')
})

t.test('on all paths limits hold, nothing is negative and no window comes back', async (t) => {
  const events = [
    ...[NOON, MIDNIGHT].flatMap((at): BackpackEvent[] => [
      ask(51, at),
      hold(40, at),
      charge(40, at, NOON),
      charge(30, at),
      capture(40, 30, at, NOON),
      release(40, at),
    ]),
    revoke,
    renew(EXPIRES + DAY),
    alarm('weekBefore'),
    alarm('dayBefore'),
    alarm('expiry'),
  ]
  const bucket = ({ value, context: { day, spentDay, heldDay } }: Snapshot) => {
    const [spent, held] = [least(spentDay, usd(120)), least(heldDay, usd(80))]
    return `${JSON.stringify(value)} ${day} ${spent} ${held}`
  }
  const stocked = () => create({ fuse: fuse(50, 100, 200) })
  const walks = paths(backpack, stocked(), events, bucket, 20_000)
  t.ok(walks.length > 100, `${walks.length} paths`)
  const inDay = ({ context: { spentDay, heldDay } }: Snapshot) => spentDay + heldDay
  for (const walk of walks) {
    let snapshot = stocked()
    for (const event of walk) {
      const next = step(backpack, snapshot, event).snapshot
      const { day, spentDay, heldDay, spentMonth, heldMonth } = next.context
      if (day < snapshot.context.day) t.fail('a day came back', { walk })
      if ([spentDay, heldDay, spentMonth, heldMonth].some((one) => one < ZERO)) {
        t.fail('a negative amount', { walk })
      }
      const admits = event.type === 'HOLD' || event.type === 'CHARGE'
      if (admits && inDay(next) > inDay(snapshot) && inDay(next) > 100n) {
        t.fail('beyond the day', { walk })
      }
      snapshot = next
    }
  }
})

t.test('snapshots of version 1 still resolve and go on', async (t) => {
  for (const stored of golden('backpack-v1.json')) {
    const snapshot = resolve(backpack, stored)
    t.strictSame(snapshot.value, stored.value, stored.name)
    t.equal(encode(snapshot.context), encode(stored.context))
    const { value } = snapshot
    const code = typeof value === 'string' ? value.toUpperCase() : null
    t.equal(refusal(snapshot, ask(0, NOON + DAY, {}, 'price_feed')), code)
    t.equal(refusal(snapshot, release(0, NOON + DAY)), null)
  }
})
