import t from 'tap'
import type { ActorSnapshot } from '../../actors/machine-registry.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  taskPassesReducer,
  type TaskPassesReducerEvent,
} from '../../machines/task-passes-reducer.ts'
import {
  microUsd,
  stepMachineThroughEvents,
  readGoldenSnapshots,
  restoreSnapshot,
  shortestEventPaths,
  stepMachineToInitialState,
  stepStateMachine,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = ActorSnapshot<'taskPasses'>

const NOON = Date.UTC(2026, 10, 21, 12)
const start: Snapshot = stepMachineToInitialState(taskPassesReducer, { agentId: 'a' }).snapshot
const buy = (passId = 'p', calls = 3, promo = 40) =>
  ({
    type: 'BUY',
    passId,
    pass: 'hour',
    price: microUsd(30),
    calls,
    promo: microUsd(promo),
    cash: microUsd(30 * calls - promo),
    at: NOON,
    expiresAt: NOON + 1_000,
  }) as const
const on = (type: 'HOLD' | 'CAPTURE' | 'RELEASE' | 'USE', passId = 'p') =>
  ({ type, passId }) as const
const late = (type: 'GIVE_BACK' | 'EXPIRE', at = NOON + 1_000, passId = 'p') =>
  ({ type, passId, at }) as const
const after = (...events: TaskPassesReducerEvent[]) =>
  stepMachineThroughEvents(taskPassesReducer, start, [buy(), ...events]).snapshot
const refusal = (snapshot: Snapshot, event: TaskPassesReducerEvent) =>
  stepStateMachine(taskPassesReducer, snapshot, event).refused
const passIn = ({ context }: Snapshot) => context.passes['p']

t.test(
  'slots are paid with promotional credits first, and the last one ends the pass',
  async (t) => {
    t.match(passIn(after(on('USE'))), { left: 2, promo: 10n, cash: 50n })
    t.match(passIn(after(on('USE'), on('USE'))), { left: 1, promo: 0n, cash: 30n })
    const empty = after(on('USE'), on('USE'), on('USE'))
    t.strictSame(empty.context.passes, {})
    t.equal(refusal(empty, on('USE')), 'internal')
  },
)

t.test('a held slot is used or free again, and nobody else gets it', async (t) => {
  const held = after(on('USE'), on('USE'), on('HOLD'))
  t.match(passIn(held), { left: 0, held: 1, cash: 30n })
  t.equal(refusal(held, on('USE')), 'internal')
  t.equal(refusal(held, on('HOLD')), 'internal')
  const released = after(on('USE'), on('USE'), on('HOLD'), on('RELEASE'))
  t.match(passIn(released), { left: 1, held: 0, cash: 30n })
  t.strictSame(stepStateMachine(taskPassesReducer, held, on('CAPTURE')).snapshot.context.passes, {})
  t.equal(refusal(after(), on('CAPTURE')), 'internal')
  t.equal(refusal(after(), on('RELEASE')), 'internal')
})

t.test('an expired pass keeps only what running calls hold', async (t) => {
  t.equal(refusal(after(), late('GIVE_BACK', NOON)), 'internal', 'too early')
  t.match(passIn(after(late('EXPIRE', NOON + 999))), { left: 3 })
  t.strictSame(after(late('EXPIRE')).context.passes, {})
  const held = after(on('HOLD'), late('EXPIRE'))
  t.match(passIn(held), { left: 0, held: 1, promo: 0n, cash: 30n })
  const given = after(on('HOLD'), late('EXPIRE'), on('RELEASE'), late('GIVE_BACK'))
  t.strictSame(given.context.passes, {})
})

t.test('an agent has a limited number of open passes, each paid in full', async (t) => {
  const many = Array.from({ length: LIMITS.openTaskPasses }, (_, at) => buy(`p${at}`))
  const { snapshot } = stepMachineThroughEvents(taskPassesReducer, start, many)
  t.equal(refusal(snapshot, buy('more')), 'limit_reached')
  t.equal(refusal(start, { ...buy(), cash: microUsd(1) }), 'internal')
})

t.test('whatever happens, a pass holds the price of its slots', async (t) => {
  const names = ['HOLD', 'CAPTURE', 'RELEASE', 'USE'] as const
  const events: TaskPassesReducerEvent[] = [
    buy('p', 3),
    ...names.map((name) => on(name)),
    ...[late('GIVE_BACK', NOON), late('GIVE_BACK'), late('EXPIRE')],
  ]
  const bucket = (snapshot: Snapshot) => stringifyWithBigints(snapshot.context)
  const walks = shortestEventPaths(taskPassesReducer, start, events, bucket, 1_000)
  t.ok(walks.length > 9, `${walks.length} paths`)
  for (const walk of walks) {
    const pass = passIn(stepMachineThroughEvents(taskPassesReducer, start, walk).snapshot)
    if (pass === undefined) continue
    t.equal(pass.promo + pass.cash, pass.price * BigInt(pass.left + pass.held))
    t.ok(pass.promo >= 0n && pass.cash >= 0n && pass.left >= 0 && pass.held >= 0)
  }
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('task-passes-v1.json')) {
    const snapshot = restoreSnapshot(taskPassesReducer, stored)
    t.strictSame(snapshot.context, stored.context)
    for (const passId of Object.keys(snapshot.context.passes))
      t.equal(refusal(snapshot, on('USE', passId)), null)
  }
})
