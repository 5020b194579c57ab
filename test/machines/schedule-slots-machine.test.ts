import fc from 'fast-check'
import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { DAY, MINUTE } from '../../core/clock.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { scheduleMachine, type ScheduleMachineEvent } from '../../machines/schedule-machine.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  shortestEventPaths,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = SnapshotFrom<typeof scheduleMachine>
const NOON = Date.UTC(2026, 10, 21, 12)
const EVERY = 5 * MINUTE
/** The nth slot. */
const at = (n: number) => NOON + n * EVERY

const start = (): Snapshot =>
  stepMachineToInitialState(scheduleMachine, {
    scheduleId: 's1',
    name: 'demo',
    tool: 'hive_trending',
    every: EVERY,
    budget: microUsd(50_000),
    writeToHive: false,
    keyId: 'k1',
    backpackId: 'bp_1',
    at: NOON,
  }).snapshot
const ran = (n: number, late = 0) => ({ type: 'RAN', slot: at(n), at: at(n) + late }) as const
const exhausted = (n: number, needed = 6_000) =>
  ({ type: 'EXHAUSTED', slot: at(n), needed: microUsd(needed) }) as const
const barred = (n: number) =>
  ({ type: 'BARRED', slot: at(n), reason: 'key_revoked', at: at(n) }) as const
const pause = (reason: 'key_revoked' | 'key_expired') =>
  ({ type: 'PAUSE', reason, at: NOON }) as const
const funded = (balance: number, when: number) =>
  ({ type: 'FUNDED', balance: microUsd(balance), at: when }) as const
const enable = (when: number) => ({ type: 'ENABLE', at: when }) as const
const disable = { type: 'DISABLE' } as const
const cancel = { type: 'CANCEL' } as const
const refusal = (snapshot: Snapshot, event: ScheduleMachineEvent) =>
  stepStateMachine(scheduleMachine, snapshot, event).refused

t.test('the first slot is one interval after the creation', async (t) => {
  t.match(start(), { value: 'enabled', context: { slot: at(1), runs: 0, needed: null } })
})

t.test('an ended slot is followed by the next multiple of the interval', async (t) => {
  const first = stepStateMachine(scheduleMachine, start(), ran(1, 4_000))
  t.match(first.snapshot.context, { slot: at(2), ended: at(1), runs: 1 })
  t.equal(
    stepMachineThroughEvents(scheduleMachine, start(), [ran(1), ran(2), ran(3)]).snapshot.context
      .slot,
    at(4),
  )
})

t.test('missed slots run once, and later slots keep their times', async (t) => {
  const late = stepStateMachine(scheduleMachine, start(), ran(1, 7 * EVERY + 1))
  t.match(late.snapshot.context, { slot: at(9), runs: 1 })
})

t.test('a clock that is behind repeats no slot', async (t) => {
  const early = stepStateMachine(scheduleMachine, start(), ran(1, -DAY)).snapshot
  t.equal(early.context.slot, at(2))
  const again = stepMachineThroughEvents(scheduleMachine, early, [
    disable,
    enable(NOON - DAY),
  ]).snapshot
  t.equal(again.context.slot, at(2))
})

t.test('a slot ends once: a second or an earlier run is rejected', async (t) => {
  const { snapshot } = stepMachineThroughEvents(scheduleMachine, start(), [ran(1), ran(2)])
  for (const n of [1, 2, 4]) t.equal(refusal(snapshot, ran(n)), 'call_settled', `slot ${n}`)
})

t.test('without credits a schedule pauses and emits once', async (t) => {
  const paused = stepStateMachine(scheduleMachine, start(), exhausted(1))
  t.match(paused.snapshot, {
    value: 'paused',
    context: { slot: null, needed: microUsd(6_000), runs: 0 },
  })
  t.strictSame(paused.emitted, [
    {
      type: 'schedule.paused',
      scheduleId: 's1',
      name: 'demo',
      tool: 'hive_trending',
      reason: 'payment_required',
      needed: microUsd(6_000),
    },
  ])
  t.strictSame(stepStateMachine(scheduleMachine, paused.snapshot, exhausted(1)).emitted, [])
  t.equal(refusal(paused.snapshot, ran(1)), 'call_settled')
  t.strictSame(
    stepStateMachine(scheduleMachine, start(), exhausted(2)).snapshot.value,
    'enabled',
    'not of its slot',
  )
})

t.test('a paused schedule resumes when a run can be paid, with the next slot', async (t) => {
  const paused = stepStateMachine(scheduleMachine, start(), exhausted(1)).snapshot
  t.equal(stepStateMachine(scheduleMachine, paused, funded(5_999, at(3))).snapshot.value, 'paused')
  t.match(stepStateMachine(scheduleMachine, paused, funded(6_000, at(3))).snapshot, {
    value: 'enabled',
    context: { slot: at(4), needed: null },
  })
  t.match(stepStateMachine(scheduleMachine, paused, enable(at(3) + 1)).snapshot, {
    value: 'enabled',
    context: { slot: at(4), needed: null },
  })
  t.equal(
    stepStateMachine(scheduleMachine, start(), funded(9_999, at(3))).snapshot.context.slot,
    at(1),
  )
})

t.test('after a disable the current run may end; none starts before an enable', async (t) => {
  const { snapshot } = stepStateMachine(scheduleMachine, start(), disable)
  t.equal(snapshot.value, 'disabled')
  const ended = stepStateMachine(scheduleMachine, snapshot, ran(1))
  t.match(ended.snapshot, { value: 'disabled', context: { slot: null, ended: at(1), runs: 1 } })
  t.equal(refusal(ended.snapshot, ran(1)), 'call_settled')
  t.match(stepStateMachine(scheduleMachine, ended.snapshot, enable(at(5))).snapshot, {
    value: 'enabled',
    context: { slot: at(6) },
  })
  t.strictSame(
    stepStateMachine(scheduleMachine, start(), enable(at(5))).snapshot,
    start(),
    'it was enabled already',
  )
})

t.test('after an enable the current run ends once beside the next slot', async (t) => {
  const { snapshot } = stepMachineThroughEvents(scheduleMachine, start(), [
    disable,
    enable(at(1) + 9),
  ])
  t.match(snapshot, { value: 'enabled', context: { slot: at(2), late: [at(1)] } })
  const ended = stepStateMachine(scheduleMachine, snapshot, ran(1, 20))
  t.equal(ended.refused, null)
  t.match(ended.snapshot, {
    value: 'enabled',
    context: { slot: at(2), late: [], ended: at(1), runs: 1 },
  })
  t.equal(refusal(ended.snapshot, ran(1)), 'call_settled')
  const next = stepStateMachine(scheduleMachine, ended.snapshot, ran(2)).snapshot
  t.match(next.context, { slot: at(3), ended: at(2), runs: 2 })
  const both = stepMachineThroughEvents(scheduleMachine, snapshot, [ran(2), ran(1)]).snapshot
  t.match(both.context, { slot: at(3), late: [], ended: at(2), runs: 2 }, 'in either order')
})

t.test('more than one run may be in progress, up to a limit', async (t) => {
  const again = (n: number) => [disable, enable(at(n) + 9)]
  const twice = stepMachineThroughEvents(scheduleMachine, start(), [
    ...again(1),
    ...again(2),
  ]).snapshot
  t.strictSame(twice.context.late, [at(1), at(2)])
  const ended = stepMachineThroughEvents(scheduleMachine, twice, [ran(1), ran(2)])
  t.match(ended, { refused: null, snapshot: { context: { late: [], runs: 2, slot: at(3) } } })
  const many = Array.from({ length: 20 }, (_, n) => again(n + 1)).flat()
  t.equal(stepMachineThroughEvents(scheduleMachine, start(), many).snapshot.context.late.length, 8)
})

t.test(
  'a schedule enabled again before its slot is due keeps the slot and runs once',
  async (t) => {
    const { snapshot } = stepMachineThroughEvents(scheduleMachine, start(), [
      disable,
      enable(NOON + 1),
    ])
    t.match(snapshot.context, { slot: at(1), late: [] })
    t.equal(
      refusal(stepStateMachine(scheduleMachine, snapshot, ran(1)).snapshot, ran(1)),
      'call_settled',
    )
  },
)

t.test('a run without credits pauses only its own slot', async (t) => {
  const { snapshot } = stepMachineThroughEvents(scheduleMachine, start(), [
    disable,
    enable(at(1) + 9),
    exhausted(1),
  ])
  t.match(snapshot, { value: 'enabled', context: { slot: at(2), late: [], runs: 0 } })
  t.equal(refusal(snapshot, ran(1)), 'call_settled')
  const stopped = stepMachineThroughEvents(scheduleMachine, start(), [
    disable,
    exhausted(1),
  ]).snapshot
  t.match(stopped, { value: 'disabled', context: { slot: null, runs: 0 } })
})

t.test(
  'after a cancellation a running slot ends once and all other events are rejected',
  async (t) => {
    const { snapshot } = stepStateMachine(scheduleMachine, start(), cancel)
    t.equal(snapshot.value, 'cancelled')
    for (const event of [enable(NOON), disable, { type: 'CHANGE', name: 'x' } as const]) {
      t.equal(refusal(snapshot, event), 'schedule_cancelled', event.type)
    }
    t.equal(
      stepStateMachine(scheduleMachine, snapshot, funded(9_999, at(2))).snapshot.value,
      'cancelled',
    )
    t.equal(refusal(snapshot, cancel), null)
    for (const end of [ran(1), exhausted(1)]) {
      const ended = stepStateMachine(scheduleMachine, snapshot, end).snapshot
      t.match(ended, { value: 'cancelled', context: { slot: null, ended: at(1) } })
      t.equal(refusal(ended, ran(1)), 'call_settled')
    }
  },
)

t.test('only the mutable fields change', async (t) => {
  const change = { type: 'CHANGE', name: 'new', budget: microUsd(1), writeToHive: true } as const
  const { context } = stepStateMachine(scheduleMachine, start(), change).snapshot
  t.strictSame(context, { ...start().context, name: 'new', budget: 1n, writeToHive: true })
  t.strictSame(
    stepStateMachine(scheduleMachine, start(), { type: 'CHANGE' }).snapshot.context,
    start().context,
  )
})

const events: ScheduleMachineEvent[] = [
  ...[1, 2, 3].flatMap((n) => [ran(n), exhausted(n), barred(n)]),
  pause('key_revoked'),
  ran(1, 2 * EVERY),
  funded(6_000, at(2)),
  enable(at(1)),
  enable(NOON - DAY),
  disable,
  cancel,
]

t.test(
  'on all paths no slot ends twice, and only an enabled schedule waits for a new one',
  async (t) => {
    const bucket = ({ value, context: { slot, late, ended } }: Snapshot) =>
      `${String(value)} ${slot} ${late.join()} ${ended}`
    const walks = shortestEventPaths(scheduleMachine, start(), events, bucket, 20_000)
    t.ok(walks.length > 10, `${walks.length} paths`)
    for (const walk of walks) {
      const { snapshot } = stepMachineThroughEvents(scheduleMachine, start(), walk)
      const { slot, late, ended } = snapshot.context
      if (slot !== null && slot <= Math.max(ended, ...late))
        t.fail('a slot that has ended', { walk })
      if (snapshot.value === 'enabled' && slot === null) t.fail('no slot', { walk })
      if (slot !== null && (slot - NOON) % EVERY !== 0) t.fail('off the grid', { walk })
    }
  },
)

t.test('for any sequence of run reports each slot is accepted once', async (t) => {
  const property = fc.property(fc.array(fc.constantFrom(...events), { maxLength: 40 }), (told) => {
    let snapshot = start()
    const accepted: number[] = []
    for (const event of told) {
      const outcome = stepStateMachine(scheduleMachine, snapshot, event)
      if (event.type === 'RAN' && outcome.refused === null) accepted.push(event.slot)
      snapshot = outcome.snapshot
    }
    return new Set(accepted).size === accepted.length
  })
  fc.assert(property, { numRuns: 300, verbose: 1 })
  t.pass('once')
})

/** Events of a schedule, its runs and the clock; `nth` selects a running run. */
const often = <T>(arbitrary: fc.Arbitrary<T>) => ({ arbitrary, weight: 5 })
const happening = fc.oneof(
  often(
    fc.record({
      do: fc.constant('pass' as const),
      ms: fc.constantFrom(1, MINUTE, EVERY, 2 * EVERY),
    }),
  ),
  often(fc.record({ do: fc.constantFrom('begin' as const, 'begin' as const, 'disable' as const) })),
  often(
    fc.record({
      do: fc.constant('end' as const),
      nth: fc.nat(9),
      how: fc.constantFrom('paid', 'paid', 'short', 'lost'),
    }),
  ),
  often(
    fc.record({ do: fc.constant('enable' as const), wrongBy: fc.constantFrom(0, 0, -DAY, MINUTE) }),
  ),
  often(fc.record({ do: fc.constantFrom('change' as const, 'fund' as const) })),
  // Rarely: nothing but the ends of runs comes after it.
  { arbitrary: fc.record({ do: fc.constant('cancel' as const) }), weight: 1 },
)
type Happening = typeof happening extends fc.Arbitrary<infer H> ? H : never
/** A run takes less: any that is still open has died with its node. */
const MAX_RUN_MS = 4 * EVERY

/** Operations on a schedule with runs in progress, with the expected results. */
function world() {
  let [now, snapshot] = [NOON, start()]
  let [begun, gone] = [[] as { slot: number; at: number }[], false]
  const settled = new Set<number>()
  const faults: string[] = []
  const demand = (holds: boolean, fault: string) => void (holds || faults.push(fault))
  const tell = (event: ScheduleMachineEvent) => {
    const outcome = stepStateMachine(scheduleMachine, snapshot, event)
    snapshot = outcome.snapshot
    return outcome.refused
  }

  /** By the rows and the database's clock, on any node and on several of them. */
  function begin(): void {
    const { slot } = snapshot.context
    if (snapshot.value === 'enabled' && slot !== null && slot <= now) {
      demand(!settled.has(slot), 'a slot that has ended begins again')
      begun.push({ slot, at: now })
    }
  }

  function end(nth: number, how: string): void {
    const run = begun[nth % begun.length]
    if (run === undefined) return
    begun = begun.filter((other) => other !== run)
    if (how === 'lost') return
    const known = settled.has(run.slot)
    if (how === 'paid') {
      const refused = tell({ type: 'RAN', ...run })
      demand(refused === (known ? 'call_settled' : null), 'charged once in any order')
    } else tell({ type: 'EXHAUSTED', slot: run.slot, needed: microUsd(6_000) })
    settled.add(run.slot)
  }

  function act(one: Happening): void {
    if (one.do === 'pass') now += one.ms
    begun = begun.filter((run) => now - run.at < MAX_RUN_MS)
    const { value } = snapshot
    if (one.do === 'begin') begin()
    if (one.do === 'end') end(one.nth, one.how)
    if (one.do === 'disable') tell(disable)
    if (one.do === 'fund') tell(funded(6_000, now))
    if (one.do === 'change') tell({ type: 'CHANGE', budget: microUsd(1) })
    if (one.do === 'cancel') gone = tell(cancel) === null
    if (one.do === 'enable') {
      const refused = tell(enable(now + one.wrongBy))
      demand(refused === (gone ? 'schedule_cancelled' : null), 'enabled unless cancelled')
      const isNew = value !== 'enabled' && refused === null && one.wrongBy >= 0
      if (isNew) demand((snapshot.context.slot ?? 0) > now, 'its next slot lies ahead')
    }
  }

  return (one: Happening): string[] => {
    const before = snapshot.context.slot ?? 0
    act(one)
    const { slot, late, ended } = snapshot.context
    demand(!gone || snapshot.value === 'cancelled', 'cancelled for good')
    demand(snapshot.value !== 'enabled' || slot !== null, 'enabled, it has a next slot')
    if (slot !== null) {
      demand(slot >= before, 'slots go forward')
      demand(slot > Math.max(ended, ...late, ...settled), 'after all that have begun')
    }
    return faults
  }
}

t.test('for any sequence of events each started slot is charged once', async (t) => {
  const property = fc.property(fc.array(happening, { maxLength: 80, size: 'max' }), (told) => {
    const live = world()
    for (const one of told) {
      const [fault] = live(one)
      if (fault !== undefined) throw new Error(fault)
    }
  })
  fc.assert(property, { numRuns: 500, verbose: 1 })
  t.pass('once')
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('schedule-v1.json')) {
    const snapshot = restoreSnapshot(scheduleMachine, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    const { slot } = snapshot.context
    const code = refusal(snapshot, { type: 'RAN', slot: slot ?? 0, at: slot ?? 0 })
    t.equal(code, slot === null ? 'call_settled' : null)
    t.equal(
      refusal(snapshot, enable(at(9))),
      snapshot.value === 'cancelled' ? 'schedule_cancelled' : null,
    )
  }
})
