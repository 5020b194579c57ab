import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import {
  hiveWatchListMachine,
  type HiveWatchListEvent,
} from '../../machines/hive-watch-list-machine.ts'
import {
  startStateMachine,
  readGoldenSnapshots,
  playEvents,
  restoreSnapshot,
  stepStateMachine,
} from '../support/machines/state-machine-stepper.ts'

const start = startStateMachine(hiveWatchListMachine, { agentId: 'a', most: 2 }).snapshot
const on = (watchId: string) => ({ type: 'BEGIN', watchId }) as const
const off = (watchId: string) => ({ type: 'END', watchId }) as const
const refusal = (snapshot: SnapshotFrom<typeof hiveWatchListMachine>, event: HiveWatchListEvent) =>
  stepStateMachine(hiveWatchListMachine, snapshot, event).refused

t.test('watches are limited, and an ended one frees a place', async (t) => {
  const { snapshot: full } = playEvents(hiveWatchListMachine, start, [on('x'), on('y')])
  t.equal(refusal(full, on('z')), 'limit_reached')
  const { snapshot: freed } = playEvents(hiveWatchListMachine, full, [off('x')])
  t.strictSame(freed.context.watches, ['y'])
  t.equal(refusal(freed, on('z')), null)
})

t.test('a watch ends once, and only after it started', async (t) => {
  t.equal(refusal(start, off('x')), 'watch_not_found')
  const { snapshot } = playEvents(hiveWatchListMachine, start, [on('x'), off('x')])
  t.equal(refusal(snapshot, off('x')), 'watch_not_found')
})

t.test('an unknown event is refused', async (t) => {
  t.equal(refusal(start, { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('snapshots of version 1 still resolve and go on', async (t) => {
  for (const stored of readGoldenSnapshots('watch-list-v1.json')) {
    const snapshot = restoreSnapshot(hiveWatchListMachine, stored)
    t.strictSame(snapshot.context, stored.context)
    t.equal(refusal(snapshot, off(String(snapshot.context.watches[0]))), null)
  }
})
