import t from 'tap'
import type { ActorSnapshot } from '../../actors/machine-registry.ts'
import {
  hiveWatchListReducer,
  type HiveWatchListReducerEvent,
} from '../../machines/hive-watch-list-reducer.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
} from '../support/machines/state-machine-stepper.ts'

const start = stepMachineToInitialState(hiveWatchListReducer, { agentId: 'a', most: 2 }).snapshot
const on = (watchId: string) => ({ type: 'BEGIN', watchId }) as const
const off = (watchId: string) => ({ type: 'END', watchId }) as const
const refusal = (snapshot: ActorSnapshot<'watchList'>, event: HiveWatchListReducerEvent) =>
  stepStateMachine(hiveWatchListReducer, snapshot, event).refused

t.test('watches are limited, and an ended one frees a place', async (t) => {
  const { snapshot: full } = stepMachineThroughEvents(hiveWatchListReducer, start, [
    on('x'),
    on('y'),
  ])
  t.equal(refusal(full, on('z')), 'limit_reached')
  const { snapshot: freed } = stepMachineThroughEvents(hiveWatchListReducer, full, [off('x')])
  t.strictSame(freed.context.watches, ['y'])
  t.equal(refusal(freed, on('z')), null)
})

t.test('a watch ends once, and only after it started', async (t) => {
  t.equal(refusal(start, off('x')), 'watch_not_found')
  const { snapshot } = stepMachineThroughEvents(hiveWatchListReducer, start, [on('x'), off('x')])
  t.equal(refusal(snapshot, off('x')), 'watch_not_found')
})

t.test('an unknown event is rejected', async (t) => {
  t.equal(refusal(start, { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('watch-list-v1.json')) {
    const snapshot = restoreSnapshot(hiveWatchListReducer, stored)
    t.strictSame(snapshot.context, stored.context)
    t.equal(refusal(snapshot, off(String(snapshot.context.watches[0]))), null)
  }
})
