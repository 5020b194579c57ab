import t from 'tap'
import type { ActorSnapshot } from '../../actors/machine-registry.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { ZERO_MICROS } from '../../core/money.ts'
import { LIMITS } from '../../core/limits.ts'
import { fleetPoolReducer, type FleetPoolReducerEvent } from '../../machines/fleet-pool-reducer.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  shortestEventPaths,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = ActorSnapshot<'fleet'>

const start = (): Snapshot =>
  stepMachineToInitialState(fleetPoolReducer, { fleetId: 'f', ownerId: 'ann' }).snapshot
const join = (agentId: string) => ({ type: 'JOIN', agentId }) as const
const leave = (agentId: string) => ({ type: 'LEAVE', agentId }) as const
const draw = (amount: number, agentId = 'bob') =>
  ({ type: 'DRAW', agentId, amount: microUsd(amount) }) as const
const credit = (amount: number) => ({ type: 'CREDIT', amount: microUsd(amount) }) as const
const topUp = (amount: number) => ({ type: 'TOP_UP', amount: microUsd(amount) }) as const
const refusal = (snapshot: Snapshot, event: FleetPoolReducerEvent) =>
  stepStateMachine(fleetPoolReducer, snapshot, event).refused
const withBob = (...events: FleetPoolReducerEvent[]) =>
  stepMachineThroughEvents(fleetPoolReducer, start(), [join('bob'), ...events]).snapshot

t.test('a fleet starts empty, without members', async (t) => {
  t.strictSame(start().context, {
    fleetId: 'f',
    ownerId: 'ann',
    cash: 0n,
    promo: 0n,
    members: [],
    rewarded: false,
  })
})

t.test('an agent joins once, up to 1,000 members', async (t) => {
  t.strictSame(withBob(join('cid')).context.members, ['bob', 'cid'])
  t.equal(refusal(withBob(), join('bob')), 'already_in_fleet')
  const members = (count: number) => {
    const context = {
      ...start().context,
      members: Array.from({ length: count }, (_, at) => `${at}`),
    }
    return restoreSnapshot(fleetPoolReducer, { name: 'many', value: 'open', context })
  }
  t.equal(refusal(members(LIMITS.fleetMembers - 1), join('bob')), null)
  t.equal(refusal(members(LIMITS.fleetMembers), join('bob')), 'limit_reached')
  t.equal(refusal(members(LIMITS.fleetMembers), join('7')), 'already_in_fleet')
})

t.test('a member leaves once, draws nothing afterwards, and frees its place', async (t) => {
  const full = withBob(join('cid'), topUp(1_000_000))
  const left = stepStateMachine(fleetPoolReducer, full, leave('bob')).snapshot
  t.strictSame(left.context, { ...full.context, members: ['cid'] }, 'the pool keeps its money')
  t.equal(refusal(left, draw(1)), 'not_in_fleet')
  t.equal(refusal(left, leave('bob')), 'not_in_fleet')
  t.equal(refusal(left, leave('eve')), 'not_in_fleet')
  t.equal(refusal(left, draw(1, 'cid')), null)
  const back = stepStateMachine(fleetPoolReducer, left, credit(5)).snapshot.context
  t.equal(back.cash, left.context.cash + 5n, 'what it had borrowed comes back all the same')
  t.strictSame(stepStateMachine(fleetPoolReducer, left, join('bob')).snapshot.context.members, [
    'cid',
    'bob',
  ])
  const members = Array.from({ length: LIMITS.fleetMembers }, (_, at) => `${at}`)
  const many = restoreSnapshot(fleetPoolReducer, {
    name: 'many',
    value: 'open',
    context: { ...full.context, members },
  })
  t.equal(refusal(stepStateMachine(fleetPoolReducer, many, leave('7')).snapshot, join('bob')), null)
})

t.test('a draw takes the bonus first, then cash, and is all or nothing', async (t) => {
  const full = withBob(topUp(1_000_000))
  t.match(full.context, { promo: 250_000n, cash: 1_000_000n, rewarded: true })
  const once = stepStateMachine(fleetPoolReducer, full, draw(300_000)).snapshot
  t.match(once.context, { promo: 0n, cash: 950_000n })
  const short = stepStateMachine(fleetPoolReducer, once, draw(950_001))
  t.equal(short.refused, 'payment_required')
  t.strictSame(short.snapshot.context, once.context)
  t.match(stepStateMachine(fleetPoolReducer, once, draw(950_000)).snapshot.context, {
    promo: 0n,
    cash: 0n,
  })
})

t.test('a reverted top-up takes back its bonus first, and at most the balance', async (t) => {
  const undo = (amount: number, bonus: number) =>
    ({ type: 'UNDO_TOP_UP', amount: microUsd(amount), bonus: microUsd(bonus) }) as const
  const full = [topUp(4_000_000), topUp(1_000_000)]
  const one = withBob(...full, undo(1_000_000, 0)).context
  t.match(one, { cash: 4_000_000n, promo: 1_000_000n, rewarded: true })
  const back = withBob(...full, undo(4_000_000, 1_000_000)).context
  t.match(back, { cash: 1_000_000n, promo: 0n, rewarded: false }, 'the next one brings it')
  const short = withBob(...full, undo(5_500_000, 0)).context
  t.match(short, { cash: 0n, promo: 500_000n, rewarded: true }, 'what is left stands in')
  t.match(withBob(undo(1, 1)).context, { cash: 0n, promo: 0n })
})

t.test('an agent that is no member cannot draw', async (t) => {
  const full = withBob(topUp(1_000_000))
  t.equal(refusal(full, draw(1, 'eve')), 'not_in_fleet')
  t.equal(refusal(full, draw(1, 'ann')), 'not_in_fleet', 'an owner draws as a member only')
  t.equal(refusal(start(), draw(1, 'eve')), 'not_in_fleet')
})

t.test('the first top-up of at least 1 USDC brings a bonus of 25 %, once', async (t) => {
  const small = withBob(topUp(999_999))
  t.match(small.context, { cash: 999_999n, promo: 0n, rewarded: false })
  const first = stepStateMachine(fleetPoolReducer, small, topUp(5_000_001)).snapshot
  t.match(first.context, { cash: 6_000_000n, promo: 1_250_000n, rewarded: true })
  const second = stepStateMachine(fleetPoolReducer, first, topUp(8_000_000)).snapshot
  t.match(second.context, { cash: 14_000_000n, promo: 1_250_000n })
})

t.test('a top-up that the day has no bonus for leaves it to the next one', async (t) => {
  const spent = withBob({ ...topUp(2_000_000), bonusLeft: ZERO_MICROS })
  t.match(spent.context, { cash: 2_000_000n, promo: 0n, rewarded: false })
  const next = stepStateMachine(fleetPoolReducer, spent, topUp(4_000_000)).snapshot
  t.match(next.context, { promo: 1_000_000n, rewarded: true })
  const had = withBob({ ...topUp(2_000_000), bonusLeft: null }, topUp(4_000_000))
  t.match(had.context, { cash: 6_000_000n, promo: 0n, rewarded: true }, 'its owner has had it')
})

t.test('a returned loan keeps its kind and is no top-up', async (t) => {
  t.match(withBob(credit(2_000_000)).context, { cash: 2_000_000n, promo: 0n, rewarded: false })
  const bonus = withBob({ ...credit(2_000_000), promo: microUsd(3) })
  t.match(bonus.context, { cash: 2_000_000n, promo: 3n, rewarded: false })
})

t.test('an unknown event is rejected', async (t) => {
  t.equal(refusal(start(), { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('on all paths no credits are created or lost', async (t) => {
  const unit = 400_000
  const events: FleetPoolReducerEvent[] = [
    join('bob'),
    join('cid'),
    leave('bob'),
    leave('cid'),
    draw(unit),
    draw(3 * unit, 'cid'),
    credit(unit),
    topUp(3 * unit),
  ]
  const most = microUsd(12 * unit)
  const bucket = ({ context }: Snapshot) =>
    stringifyWithBigints([
      context.members,
      context.rewarded,
      [context.cash, context.promo].map((amount) => (amount < most ? amount : most)),
    ])
  const walks = shortestEventPaths(fleetPoolReducer, start(), events, bucket, 20_000)
  t.ok(walks.length > 50, `${walks.length} paths`)
  for (const walk of walks) {
    let snapshot = start()
    for (const event of walk) {
      const { snapshot: next, refused } = stepStateMachine(fleetPoolReducer, snapshot, event)
      const [before, after] = [snapshot.context, next.context]
      const change = after.cash + after.promo - before.cash - before.promo
      const brought = 'amount' in event ? event.amount : 0n
      const bonus = after.rewarded && !before.rewarded ? brought / 4n : 0n
      const due = event.type === 'DRAW' ? -brought : brought + bonus
      if (change !== (refused === null ? due : 0n)) t.fail('money is off', { walk, event })
      if (after.cash < 0n || after.promo < 0n) t.fail('below zero', { walk })
      if (new Set(after.members).size !== after.members.length) t.fail('twice in', { walk })
      const outside = 'agentId' in event && !before.members.includes(event.agentId)
      if (event.type === 'DRAW' && outside && refused === null) t.fail('lent outside', { walk })
      snapshot = next
    }
  }
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('fleet-v1.json')) {
    const snapshot = restoreSnapshot(fleetPoolReducer, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    t.equal(refusal(snapshot, join('a new one')), null)
    const { cash, promo } = snapshot.context
    t.match(stepStateMachine(fleetPoolReducer, snapshot, credit(5)).snapshot.context, {
      cash: cash + 5n,
      promo,
    })
  }
})
