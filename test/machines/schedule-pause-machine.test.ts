import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { MINUTE } from '../../core/clock.ts'
import { scheduleMachine, type ScheduleMachineEvent } from '../../machines/schedule-machine.ts'
import {
  stepMachineToInitialState,
  stepMachineThroughEvents,
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
const ran = (n: number) => ({ type: 'RAN', slot: at(n), at: at(n) }) as const
const exhausted = (n: number) =>
  ({ type: 'EXHAUSTED', slot: at(n), needed: microUsd(6_000) }) as const
const barred = (n: number) =>
  ({ type: 'BARRED', slot: at(n), reason: 'key_revoked', at: at(n) }) as const
const pause = (reason: 'key_revoked' | 'key_expired') =>
  ({ type: 'PAUSE', reason, at: NOON }) as const
const funded = (balance: number, when: number) =>
  ({ type: 'FUNDED', balance: microUsd(balance), at: when }) as const
const enable = (when: number) => ({ type: 'ENABLE', at: when }) as const
const disable = { type: 'DISABLE' } as const
const refusal = (snapshot: Snapshot, event: ScheduleMachineEvent) =>
  stepStateMachine(scheduleMachine, snapshot, event).refused

t.test(
  'a schedule paused with its key emits the reason once, and credits do not resume it',
  async (t) => {
    const paused = stepStateMachine(scheduleMachine, start(), pause('key_revoked'))
    t.match(paused.snapshot, {
      value: 'paused',
      context: { slot: at(1), needed: null, pausedFor: { reason: 'key_revoked', at: NOON } },
    })
    const told = { type: 'schedule.paused', scheduleId: 's1', name: 'demo', tool: 'hive_trending' }
    t.strictSame(paused.emitted, [{ ...told, reason: 'key_revoked' }])
    const again = stepStateMachine(scheduleMachine, paused.snapshot, pause('key_expired'))
    t.strictSame([again.snapshot.value, again.emitted], ['paused', []])
    t.equal(
      stepStateMachine(scheduleMachine, paused.snapshot, funded(1_000_000, at(3))).snapshot.value,
      'paused',
    )
    const short = stepMachineThroughEvents(scheduleMachine, start(), [
      exhausted(1),
      pause('key_revoked'),
    ]).snapshot
    t.equal(
      stepStateMachine(scheduleMachine, short, funded(1_000_000, at(3))).snapshot.value,
      'paused',
    )
  },
)

t.test(
  'a schedule paused with its key ends the current run once and starts no other',
  async (t) => {
    const paused = stepStateMachine(scheduleMachine, start(), pause('key_revoked')).snapshot
    const ended = stepStateMachine(scheduleMachine, paused, ran(1))
    t.match(ended, {
      refused: null,
      snapshot: { value: 'paused', context: { slot: null, runs: 1 } },
    })
    t.equal(refusal(ended.snapshot, ran(1)), 'call_settled')
  },
)

t.test('a prohibited run ends its slot and pauses the schedule', async (t) => {
  const paused = stepStateMachine(scheduleMachine, start(), barred(1))
  t.match(paused.snapshot, {
    value: 'paused',
    context: { slot: null, ended: at(1), runs: 0, pausedFor: { reason: 'key_revoked' } },
  })
  t.equal(paused.emitted.length, 1)
  t.equal(
    stepStateMachine(scheduleMachine, start(), barred(2)).snapshot.value,
    'enabled',
    'not of its slot',
  )
  const disabled = stepMachineThroughEvents(scheduleMachine, start(), [disable, barred(1)]).snapshot
  t.match(disabled, { value: 'disabled', context: { slot: null } })
  const late = stepMachineThroughEvents(scheduleMachine, start(), [
    disable,
    enable(at(1) + 9),
    barred(1),
  ]).snapshot
  t.match(late, { value: 'enabled', context: { slot: at(2), late: [] } }, 'a late run alone')
})

t.test('a key that enables a schedule takes it over and ends its pause', async (t) => {
  const paused = stepStateMachine(scheduleMachine, start(), pause('key_revoked')).snapshot
  const taken = stepStateMachine(scheduleMachine, paused, {
    ...enable(at(1) + 1),
    keyId: 'k2',
  }).snapshot
  t.match(taken, { value: 'enabled', context: { keyId: 'k2', pausedFor: null, slot: at(2) } })
  t.equal(taken.context.backpackId, 'bp_1', 'its Backpack stays')
  const running = stepStateMachine(scheduleMachine, start(), {
    ...enable(NOON),
    keyId: 'k2',
  }).snapshot
  t.match(running, { value: 'enabled', context: { keyId: 'k2', slot: at(1) } })
  const same = stepStateMachine(scheduleMachine, start(), { ...enable(NOON), keyId: 'k1' }).snapshot
  t.strictSame(same, start())
})
