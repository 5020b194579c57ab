import t from 'tap'
import type { ActorSnapshot } from '../../actors/machine-registry.ts'
import {
  dailyQuotaReducer,
  type DailyQuotaReducerEvent,
} from '../../machines/daily-quota-reducer.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
} from '../support/machines/state-machine-stepper.ts'

const NOON = Date.UTC(2026, 10, 21, 12)
const MIDNIGHT = Date.UTC(2026, 10, 22)
const start = stepMachineToInitialState(dailyQuotaReducer, { agentId: 'a' }).snapshot
const take = (callId: string, at = NOON, tool = 'email_send') =>
  ({ type: 'TAKE', callId, tool, most: 2, at }) as const
const ask = (at = NOON) => ({ type: 'ASK', tool: 'email_send', most: 2, at }) as const
const keep = (callId: string) => ({ type: 'KEEP', callId }) as const
const back = (callId: string) => ({ type: 'GIVE_BACK', callId }) as const
const refusal = (snapshot: ActorSnapshot<'quota'>, event: DailyQuotaReducerEvent) =>
  stepStateMachine(dailyQuotaReducer, snapshot, event).refused

t.test('running calls count, separately per tool', async (t) => {
  const { snapshot } = stepMachineThroughEvents(dailyQuotaReducer, start, [
    take('1'),
    keep('1'),
    take('2'),
  ])
  t.equal(refusal(snapshot, take('3')), 'quota_exceeded')
  t.equal(refusal(snapshot, ask()), 'quota_exceeded')
  t.equal(refusal(snapshot, take('3', NOON, 'another')), null)
  t.equal(
    stepStateMachine(dailyQuotaReducer, start, ask()).snapshot.context.used['email_send'],
    undefined,
  )
})

t.test('a call slot is returned once, and not after it was used', async (t) => {
  const { snapshot } = stepMachineThroughEvents(dailyQuotaReducer, start, [
    take('1'),
    take('2'),
    back('2'),
    back('2'),
    keep('1'),
    back('1'),
  ])
  t.strictSame(snapshot.context.used, { email_send: 1 })
  t.strictSame(snapshot.context.open, {})
  t.equal(refusal(snapshot, take('3')), null)
  t.strictSame(
    stepMachineThroughEvents(dailyQuotaReducer, snapshot, [take('3'), back('3')]).snapshot.context
      .used,
    {
      email_send: 1,
    },
  )
})

t.test('a UTC day starts at zero, and earlier calls do not count', async (t) => {
  const { snapshot: full } = stepMachineThroughEvents(dailyQuotaReducer, start, [
    take('1'),
    take('2'),
  ])
  t.equal(refusal(full, take('3', MIDNIGHT - 1)), 'quota_exceeded')
  const { snapshot } = stepMachineThroughEvents(dailyQuotaReducer, full, [
    take('3', MIDNIGHT),
    back('1'),
  ])
  t.strictSame(snapshot.context.used, { email_send: 1 })
  t.equal(refusal(snapshot, take('4', MIDNIGHT)), null)
  const { snapshot: next } = stepMachineThroughEvents(dailyQuotaReducer, snapshot, [
    take('4', MIDNIGHT),
  ])
  t.equal(refusal(next, take('5', NOON)), 'quota_exceeded', 'yesterday does not come back')
})

t.test('bytes are stored up to the daily maximum, and the next day starts at zero', async (t) => {
  const store = (bytes: number, at = NOON) => ({ type: 'STORE', bytes, most: 100, at }) as const
  const { snapshot } = stepMachineThroughEvents(dailyQuotaReducer, start, [store(60), store(40)])
  t.equal(snapshot.context.kept, 100)
  t.equal(refusal(snapshot, store(1, MIDNIGHT - 1)), 'quota_exceeded')
  const next = stepStateMachine(dailyQuotaReducer, snapshot, store(100, MIDNIGHT)).snapshot
  t.equal(next.context.kept, 100)
  t.equal(refusal(next, store(1, NOON)), 'quota_exceeded', 'yesterday does not come back')
  const called = stepStateMachine(dailyQuotaReducer, snapshot, take('1')).snapshot
  t.equal(called.context.kept, 100, 'calls of the day leave the bytes alone')
  t.equal(stepStateMachine(dailyQuotaReducer, called, take('2', MIDNIGHT)).snapshot.context.kept, 0)
})

t.test('an unknown event is rejected', async (t) => {
  t.equal(refusal(start, { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('quota-v1.json')) {
    const snapshot = restoreSnapshot(dailyQuotaReducer, stored)
    t.strictSame(snapshot.context, stored.context)
    const [open = ''] = Object.keys(snapshot.context.open)
    t.strictSame(stepStateMachine(dailyQuotaReducer, snapshot, back(open)).snapshot.context.used, {
      email_send: 1,
    })
  }
})
