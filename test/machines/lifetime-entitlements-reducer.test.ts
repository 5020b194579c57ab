import t from 'tap'
import type { ActorSnapshot } from '../../actors/machine-registry.ts'
import {
  entitlementsReducer,
  type EntitlementsReducerEvent,
} from '../../machines/lifetime-entitlements-reducer.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
} from '../support/machines/state-machine-stepper.ts'

const start = stepMachineToInitialState(entitlementsReducer, { agentId: 'a' }).snapshot
const use = (name: string) => ({ type: 'USE', name, most: 2 }) as const
const own = (...names: string[]) => ({ type: 'OWN', names }) as const
const order = (seen: number) => ({ type: 'ORDER', seen }) as const
const refusal = (snapshot: ActorSnapshot<'tally'>, event: EntitlementsReducerEvent) =>
  stepStateMachine(entitlementsReducer, snapshot, event).refused

t.test('free calls run out separately per tool', async (t) => {
  const { snapshot } = stepMachineThroughEvents(entitlementsReducer, start, [use('x'), use('x')])
  t.equal(refusal(snapshot, use('x')), 'allowance_used')
  t.equal(refusal(snapshot, use('y')), null)
})

t.test('an item is owned once, and several are acquired all or none', async (t) => {
  const { snapshot } = stepMachineThroughEvents(entitlementsReducer, start, [own('x')])
  t.equal(refusal(snapshot, own('y', 'x')), 'already_owned')
  t.equal(refusal(snapshot, own('y')), null)
})

t.test('a reorganisation must follow the previous one', async (t) => {
  const { snapshot } = stepMachineThroughEvents(entitlementsReducer, start, [order(0)])
  t.equal(refusal(snapshot, order(0)), 'vault_changed')
  t.equal(refusal(snapshot, order(1)), null)
})

t.test('an unknown event is rejected', async (t) => {
  t.equal(refusal(start, { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('tally-v1.json')) {
    const snapshot = restoreSnapshot(entitlementsReducer, stored)
    t.strictSame(snapshot.context, stored.context)
    t.equal(refusal(snapshot, order(snapshot.context.orders)), null)
  }
})
