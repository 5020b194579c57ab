import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { HOUR } from '../../core/clock.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import {
  creditDropMachine,
  type CreditDropMachineEvent,
} from '../../machines/credit-drop-machine.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  shortestEventPaths,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = SnapshotFrom<typeof creditDropMachine>
const NOON = Date.UTC(2026, 10, 21, 12)
const END = NOON + 2 * HOUR

const begun = (slots = 3) =>
  stepMachineToInitialState(creditDropMachine, {
    code: 'RADIODROP-X',
    slots,
    credit: microUsd(100_000),
    at: NOON,
    expiresAt: END,
  })
const start = (slots = 3): Snapshot => begun(slots).snapshot
const redeem = (agentId: string, at = NOON) => ({ type: 'REDEEM', agentId, at }) as const
const expiry = { type: 'xstate.after.life.drop.open', at: END } as never as CreditDropMachineEvent
const refusal = (snapshot: Snapshot, event: CreditDropMachineEvent) =>
  stepStateMachine(creditDropMachine, snapshot, event).refused

t.test('a drop starts open, with a timer for its end', async (t) => {
  t.match(start(), { value: 'open', context: { slots: 3, redeemers: [], expiresAt: END } })
  t.strictSame(Object.values(begun().timers), [2 * HOUR])
})

t.test('an agent takes one slot, and its last one ends the drop', async (t) => {
  const { snapshot } = stepMachineThroughEvents(creditDropMachine, start(), [
    redeem('a'),
    redeem('b'),
  ])
  t.match(snapshot, { value: 'open', context: { redeemers: ['a', 'b'] } })
  t.equal(refusal(snapshot, redeem('a')), 'drop_redeemed')
  const last = stepStateMachine(creditDropMachine, snapshot, redeem('c'))
  t.match(last.snapshot, { value: 'ended', context: { redeemers: ['a', 'b', 'c'] } })
  t.equal(last.cancelled.length, 1, 'its timer goes with it')
  t.equal(refusal(last.snapshot, redeem('d')), 'drop_ended')
  t.equal(
    refusal(last.snapshot, redeem('a')),
    'drop_redeemed',
    'a second slot is reported as redeemed',
  )
})

t.test('it ends by its timer, or by the clock if the timer is late', async (t) => {
  t.equal(refusal(start(), redeem('a', END - 1)), null)
  t.equal(refusal(start(), redeem('a', END)), 'drop_ended')
  const ended = stepStateMachine(creditDropMachine, start(), expiry).snapshot
  t.equal(ended.value, 'ended')
  t.equal(refusal(ended, redeem('a', NOON)), 'drop_ended')
  t.equal(
    stepStateMachine(creditDropMachine, ended, expiry).snapshot.value,
    'ended',
    'a second alarm finds no use',
  )
})

t.test('an unknown event is rejected', async (t) => {
  t.equal(refusal(start(), { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('on all paths no slot is claimed twice, and none after the end', async (t) => {
  const agents = ['a', 'b', 'c', 'd']
  const events = [...agents.flatMap((one) => [redeem(one), redeem(one, END)]), expiry]
  const walks = shortestEventPaths(
    creditDropMachine,
    start(),
    events,
    ({ value, context }) => stringifyWithBigints([value, context]),
    20_000,
  )
  t.ok(walks.length > 50, `${walks.length} paths`)
  for (const walk of walks) {
    let snapshot = start()
    for (const event of walk) {
      const { snapshot: next } = stepStateMachine(creditDropMachine, snapshot, event)
      const { redeemers, slots } = next.context
      if (new Set(redeemers).size !== redeemers.length || redeemers.length > slots)
        t.fail('a slot too many', { walk })
      if (snapshot.value === 'ended' && redeemers.length !== snapshot.context.redeemers.length)
        t.fail('a slot after the end', { walk })
      snapshot = next
    }
  }
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('drop-v1.json')) {
    const snapshot = restoreSnapshot(creditDropMachine, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    t.equal(refusal(snapshot, redeem('z')), stored.value === 'open' ? null : 'drop_ended')
  }
})
