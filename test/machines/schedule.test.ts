import fc from 'fast-check'
import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { DAY, MINUTE } from '../../core/clock.ts'
import { encode } from '../../core/codec.ts'
import { schedule, type ScheduleEvent } from '../../machines/schedule.ts'
import { begin, golden, paths, play, resolve, step, usd } from './play.ts'

type Snapshot = SnapshotFrom<typeof schedule>
const NOON = Date.UTC(2026, 10, 21, 12)
const EVERY = 5 * MINUTE
/** The nth slot. */
const at = (n: number) => NOON + n * EVERY

const start = (): Snapshot =>
  begin(schedule, {
    scheduleId: 's1',
    name: 'demo',
    tool: 'hive_trending',
    every: EVERY,
    budget: usd(50_000),
    writeToHive: false,
    keyId: 'k1',
    at: NOON,
  }).snapshot
const ran = (n: number, late = 0) => ({ type: 'RAN', slot: at(n), at: at(n) + late }) as const
const exhausted = (n: number, needed = 6_000) =>
  ({ type: 'EXHAUSTED', slot: at(n), needed: usd(needed) }) as const
const funded = (balance: number, when: number) =>
  ({ type: 'FUNDED', balance: usd(balance), at: when }) as const
const enable = (when: number) => ({ type: 'ENABLE', at: when }) as const
const disable = { type: 'DISABLE' } as const
const cancel = { type: 'CANCEL' } as const
const refusal = (snapshot: Snapshot, event: ScheduleEvent) =>
  step(schedule, snapshot, event).refused

t.test('the first slot comes one interval after the creation', async (t) => {
  t.match(start(), { value: 'enabled', context: { slot: at(1), runs: 0, needed: null } })
})

t.test('a slot that has ended is followed by the next of the grid', async (t) => {
  const first = step(schedule, start(), ran(1, 4_000))
  t.match(first.snapshot.context, { slot: at(2), ended: at(1), runs: 1 })
  t.equal(play(schedule, start(), [ran(1), ran(2), ran(3)]).snapshot.context.slot, at(4))
})

t.test('what was missed runs once, and the grid goes on', async (t) => {
  const late = step(schedule, start(), ran(1, 7 * EVERY + 1))
  t.match(late.snapshot.context, { slot: at(9), runs: 1 })
})

t.test('a clock that is behind brings no slot a second time', async (t) => {
  const early = step(schedule, start(), ran(1, -DAY)).snapshot
  t.equal(early.context.slot, at(2))
  const again = play(schedule, early, [disable, enable(NOON - DAY)]).snapshot
  t.equal(again.context.slot, at(2))
})

t.test('a slot ends once: another run of it, or of an earlier one, is refused', async (t) => {
  const { snapshot } = play(schedule, start(), [ran(1), ran(2)])
  for (const n of [1, 2, 4]) t.equal(refusal(snapshot, ran(n)), 'call_settled', `slot ${n}`)
})

t.test('without credits it pauses and tells so once', async (t) => {
  const paused = step(schedule, start(), exhausted(1))
  t.match(paused.snapshot, {
    value: 'paused',
    context: { slot: null, needed: usd(6_000), runs: 0 },
  })
  t.strictSame(paused.facts, [
    {
      type: 'schedule.paused',
      scheduleId: 's1',
      name: 'demo',
      tool: 'hive_trending',
      needed: usd(6_000),
    },
  ])
  t.strictSame(step(schedule, paused.snapshot, exhausted(1)).facts, [])
  t.equal(refusal(paused.snapshot, ran(1)), 'call_settled')
  t.strictSame(step(schedule, start(), exhausted(2)).snapshot.value, 'enabled', 'not of its slot')
})

t.test('a paused one goes on when a run can be paid, with the next slot', async (t) => {
  const paused = step(schedule, start(), exhausted(1)).snapshot
  t.equal(step(schedule, paused, funded(5_999, at(3))).snapshot.value, 'paused')
  t.match(step(schedule, paused, funded(6_000, at(3))).snapshot, {
    value: 'enabled',
    context: { slot: at(4), needed: null },
  })
  t.match(step(schedule, paused, enable(at(3) + 1)).snapshot, {
    value: 'enabled',
    context: { slot: at(4), needed: null },
  })
  t.equal(step(schedule, start(), funded(9_999, at(3))).snapshot.context.slot, at(1))
})

t.test('disabled, a run under way may end; no other comes before it is enabled', async (t) => {
  const { snapshot } = step(schedule, start(), disable)
  t.equal(snapshot.value, 'disabled')
  const ended = step(schedule, snapshot, ran(1))
  t.match(ended.snapshot, { value: 'disabled', context: { slot: null, ended: at(1), runs: 1 } })
  t.equal(refusal(ended.snapshot, ran(1)), 'call_settled')
  t.match(step(schedule, ended.snapshot, enable(at(5))).snapshot, {
    value: 'enabled',
    context: { slot: at(6) },
  })
  t.strictSame(step(schedule, start(), enable(at(5))).snapshot, start(), 'it was enabled already')
})

t.test('cancelled, a run under way ends once and everything else is refused', async (t) => {
  const { snapshot } = step(schedule, start(), cancel)
  t.equal(snapshot.value, 'cancelled')
  for (const event of [enable(NOON), disable, { type: 'CHANGE', name: 'x' } as const]) {
    t.equal(refusal(snapshot, event), 'schedule_cancelled', event.type)
  }
  t.equal(step(schedule, snapshot, funded(9_999, at(2))).snapshot.value, 'cancelled')
  t.equal(refusal(snapshot, cancel), null)
  for (const end of [ran(1), exhausted(1)]) {
    const ended = step(schedule, snapshot, end).snapshot
    t.match(ended, { value: 'cancelled', context: { slot: null, ended: at(1) } })
    t.equal(refusal(ended, ran(1)), 'call_settled')
  }
})

t.test('what may change changes, and nothing else', async (t) => {
  const change = { type: 'CHANGE', name: 'new', budget: usd(1), writeToHive: true } as const
  const { context } = step(schedule, start(), change).snapshot
  t.strictSame(context, { ...start().context, name: 'new', budget: 1n, writeToHive: true })
  t.strictSame(step(schedule, start(), { type: 'CHANGE' }).snapshot.context, start().context)
})

const events: ScheduleEvent[] = [
  ...[1, 2, 3].flatMap((n) => [ran(n), exhausted(n)]),
  ran(1, 2 * EVERY),
  funded(6_000, at(2)),
  enable(at(1)),
  enable(NOON - DAY),
  disable,
  cancel,
]

t.test(
  'on all paths no slot ends twice, and only an enabled one waits for a new one',
  async (t) => {
    const bucket = ({ value, context: { slot, ended } }: Snapshot) =>
      `${String(value)} ${slot} ${ended}`
    const walks = paths(schedule, start(), events, bucket, 20_000)
    t.ok(walks.length > 10, `${walks.length} paths`)
    for (const walk of walks) {
      const { snapshot } = play(schedule, start(), walk)
      const { slot, ended } = snapshot.context
      if (slot !== null && slot <= ended) t.fail('a slot that has ended', { walk })
      if (snapshot.value === 'enabled' && slot === null) t.fail('no slot', { walk })
      if (slot !== null && (slot - NOON) % EVERY !== 0) t.fail('off the grid', { walk })
    }
  },
)

t.test('whatever is told of runs, each slot is accepted once', async (t) => {
  const property = fc.property(fc.array(fc.constantFrom(...events), { maxLength: 40 }), (told) => {
    let snapshot = start()
    const accepted: number[] = []
    for (const event of told) {
      const outcome = step(schedule, snapshot, event)
      if (event.type === 'RAN' && outcome.refused === null) accepted.push(event.slot)
      snapshot = outcome.snapshot
    }
    return new Set(accepted).size === accepted.length
  })
  fc.assert(property, { numRuns: 300, verbose: 1 })
  t.pass('once')
})

t.test('snapshots of version 1 still resolve and go on', async (t) => {
  for (const stored of golden('schedule-v1.json')) {
    const snapshot = resolve(schedule, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(encode(snapshot.context), encode(stored.context))
    const { slot } = snapshot.context
    const code = refusal(snapshot, { type: 'RAN', slot: slot ?? 0, at: slot ?? 0 })
    t.equal(code, slot === null ? 'call_settled' : null)
    t.equal(
      refusal(snapshot, enable(at(9))),
      snapshot.value === 'cancelled' ? 'schedule_cancelled' : null,
    )
  }
})
