import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { entitlementsMachine, type EntitlementsEvent } from '../../machines/entitlements-machine.ts'
import {
  startStateMachine,
  readGoldenSnapshots,
  playEvents,
  restoreSnapshot,
  stepStateMachine,
} from '../support/machines/state-machine-stepper.ts'

const start = startStateMachine(entitlementsMachine, { agentId: 'a' }).snapshot
const use = (name: string) => ({ type: 'USE', name, most: 2 }) as const
const own = (...names: string[]) => ({ type: 'OWN', names }) as const
const order = (seen: number) => ({ type: 'ORDER', seen }) as const
const refusal = (snapshot: SnapshotFrom<typeof entitlementsMachine>, event: EntitlementsEvent) =>
  stepStateMachine(entitlementsMachine, snapshot, event).refused

t.test('free calls run out, for each tool by itself', async (t) => {
  const { snapshot } = playEvents(entitlementsMachine, start, [use('x'), use('x')])
  t.equal(refusal(snapshot, use('x')), 'allowance_used')
  t.equal(refusal(snapshot, use('y')), null)
})

t.test('a thing is owned once, and of several all or none', async (t) => {
  const { snapshot } = playEvents(entitlementsMachine, start, [own('x')])
  t.equal(refusal(snapshot, own('y', 'x')), 'already_owned')
  t.equal(refusal(snapshot, own('y')), null)
})

t.test('an order stands on the one before it', async (t) => {
  const { snapshot } = playEvents(entitlementsMachine, start, [order(0)])
  t.equal(refusal(snapshot, order(0)), 'vault_changed')
  t.equal(refusal(snapshot, order(1)), null)
})

t.test('an unknown event is refused', async (t) => {
  t.equal(refusal(start, { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('snapshots of version 1 still resolve and go on', async (t) => {
  for (const stored of readGoldenSnapshots('tally-v1.json')) {
    const snapshot = restoreSnapshot(entitlementsMachine, stored)
    t.strictSame(snapshot.context, stored.context)
    t.equal(refusal(snapshot, order(snapshot.context.orders)), null)
  }
})
