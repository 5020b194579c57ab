import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import {
  memoryListingMachine,
  type MemoryListingMachineEvent,
} from '../../machines/memory-listing-machine.ts'
import {
  microUsd,
  readGoldenSnapshots,
  restoreSnapshot,
  stepMachineToInitialState,
  stepStateMachine,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = SnapshotFrom<typeof memoryListingMachine>
const NOON = Date.UTC(2026, 10, 21, 12)
const [SELLER, OTHER] = ['seller', 'other']
const start = stepMachineToInitialState(memoryListingMachine, {
  listingId: 'l',
  sellerId: SELLER,
  name: 'Fees',
  price: microUsd(250_000),
  entries: 3,
  acceptsPromo: false,
  at: NOON,
}).snapshot
const sold = { type: 'SOLD', promo: microUsd(5), cash: microUsd(200_000) } as const
const withdraw = (agentId: string, at = NOON): MemoryListingMachineEvent => ({
  type: 'WITHDRAW',
  agentId,
  at,
})
const step = (from: Snapshot, event: MemoryListingMachineEvent) =>
  stepStateMachine(memoryListingMachine, from, event)

t.test('its seller withdraws a listing once', async (t) => {
  t.equal(step(start, withdraw(OTHER)).refused, 'listing_not_yours')
  const { snapshot } = step(start, withdraw(SELLER))
  t.match(snapshot, { value: 'withdrawn', context: { withdrawnAt: NOON } })
  const again = step(snapshot, withdraw(SELLER, NOON + 1))
  t.equal(again.refused, null)
  t.match(again.snapshot.context, { withdrawnAt: NOON })
  t.equal(step(snapshot, withdraw(OTHER)).refused, 'listing_not_yours')
})

t.test('sales and ratings count in both states', async (t) => {
  for (const from of [start, step(start, withdraw(SELLER)).snapshot]) {
    const after = [sold, sold, { type: 'RATED', stars: 4 } as const].reduce(
      (state, event) => step(state, event).snapshot,
      from,
    )
    t.equal(after.value, from.value)
    t.match(after.context, { sold: 2, promo: 10n, cash: 400_000n, ratings: 1, stars: 4 })
  }
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('listing-v1.json')) {
    const snapshot = restoreSnapshot(memoryListingMachine, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    t.equal(step(snapshot, withdraw(SELLER)).refused, null, stored.name)
  }
})
