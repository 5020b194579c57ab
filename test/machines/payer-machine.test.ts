import fc from 'fast-check'
import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { sumMicros } from '../../core/money.ts'
import { MAX_OPTIMISTIC_PAYER_CAP, INITIAL_OPTIMISTIC_PAYER_CAP } from '../../domain/pricing.ts'
import { payerMachine, type PayerMachineEvent } from '../../machines/payer-machine.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  shortestEventPaths,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = SnapshotFrom<typeof payerMachine>
const USDC = '0xusdc'

const start = (): Snapshot =>
  stepMachineToInitialState(payerMachine, { payer: 'eip155:8453:0xabc' }).snapshot
const reserve = (settlement: string, price: number, more: object = {}) => ({
  type: 'RESERVE' as const,
  settlement,
  asset: USDC,
  amount: BigInt(price),
  price: microUsd(price),
  mode: 'optimistic' as const,
  balance: 10_000_000n as bigint | null,
  balanceBlock: 100n,
  globalRoom: true,
  ...more,
})
const settle = (settlement: string, price: number, block = 100n) =>
  ({ type: 'SETTLE', settlement, price: microUsd(price), block }) as const
const unsettle = (settlement: string, price: number) => {
  const terms = {
    asset: USDC,
    amount: BigInt(price),
    price: microUsd(price),
    mode: 'first',
  } as const
  return { type: 'UNSETTLE', settlement, ...terms } as const
}
const release = (settlement: string) => ({ type: 'RELEASE', settlement }) as const
const lose = (settlement: string, price: number, delivered: boolean) =>
  ({ type: 'LOSE', settlement, price: microUsd(price), delivered }) as const
const modeOf = (snapshot: Snapshot, event: ReturnType<typeof reserve>) =>
  stepStateMachine(payerMachine, snapshot, event).snapshot.context.reservations[event.settlement]
    ?.mode
const refusal = (snapshot: Snapshot, event: PayerMachineEvent) =>
  stepStateMachine(payerMachine, snapshot, event).refused

t.test('a new payer has an unsettled limit of ten cents', async (t) => {
  t.match(start(), {
    value: 'trusted',
    context: { inFlight: 0n, settledTotal: 0n, losses: 0n, cap: INITIAL_OPTIMISTIC_PAYER_CAP },
  })
  t.equal(modeOf(start(), reserve('a', 100_000)), 'optimistic')
  t.equal(modeOf(start(), reserve('a', 100_001)), 'first', 'one call too dear')
  const { snapshot } = stepStateMachine(payerMachine, start(), reserve('a', 60_000))
  t.equal(snapshot.context.inFlight, 60_000n)
  t.equal(modeOf(snapshot, reserve('b', 40_000)), 'optimistic')
  t.equal(modeOf(snapshot, reserve('b', 40_001)), 'first', 'over the cap it settles first')
})

t.test('a reverted payment is in flight again and loses its trust', async (t) => {
  const paid = stepMachineThroughEvents(payerMachine, start(), [
    reserve('a', 60_000),
    settle('a', 60_000),
  ]).snapshot
  const open = stepMachineThroughEvents(payerMachine, paid, [unsettle('a', 60_000)]).snapshot
  t.match(open.context, { inFlight: 60_000n, settledTotal: 0n, cap: INITIAL_OPTIMISTIC_PAYER_CAP })
  t.match(open.context.reservations, { a: { amount: 60_000n, mode: 'first' } })
  t.equal(
    refusal(open, reserve('b', 50_000, { balance: 100_000n })),
    'payment_invalid',
    'its balance is asked for again',
  )
  t.equal(
    stepMachineThroughEvents(payerMachine, open, [settle('a', 60_000)]).snapshot.context
      .settledTotal,
    60_000n,
  )
  const cheat = stepMachineThroughEvents(payerMachine, open, [lose('a', 60_000, true)]).snapshot
  t.match(cheat, { value: 'blocked', context: { inFlight: 0n, losses: 60_000n } })
  const again = stepMachineThroughEvents(payerMachine, cheat, [
    reserve('c', 5),
    settle('c', 5),
    unsettle('c', 5),
  ]).snapshot
  t.match(again, { value: 'blocked', context: { inFlight: 5n, cap: 0n, settledTotal: 0n } })
})

t.test(
  'a payment settles first without a balance, without room in the limit, or if requested',
  async (t) => {
    t.equal(modeOf(start(), reserve('a', 1, { balance: null })), 'first')
    t.equal(modeOf(start(), reserve('a', 1, { globalRoom: false })), 'first')
    t.equal(modeOf(start(), reserve('a', 1, { mode: 'first' })), 'first')
  },
)

t.test('payments in flight and the new amount must fit the balance, per asset', async (t) => {
  const { snapshot } = stepStateMachine(
    payerMachine,
    start(),
    reserve('a', 60_000, { balance: 100_000n }),
  )
  t.equal(refusal(snapshot, reserve('b', 40_000, { balance: 100_000n })), null)
  t.equal(refusal(snapshot, reserve('b', 40_001, { balance: 100_000n })), 'payment_invalid')
  const other = { balance: 40_001n, asset: '0xother' }
  t.equal(refusal(snapshot, reserve('b', 40_001, other)), null)
  t.equal(refusal(snapshot, reserve('a', 1)), 'payment_in_progress')
})

t.test('a balance read before the last settlement counts the same money twice', async (t) => {
  const { snapshot } = stepMachineThroughEvents(payerMachine, start(), [
    reserve('a', 60_000),
    settle('a', 60_000, 101n),
  ])
  t.equal(refusal(snapshot, reserve('b', 1)), 'payment_invalid')
  t.equal(refusal(snapshot, reserve('b', 1, { balanceBlock: 101n })), null)
  t.equal(refusal(snapshot, reserve('b', 1, { balance: null })), null)
})

t.test('the limit grows with settled payments, up to two dollars', async (t) => {
  const { snapshot } = stepMachineThroughEvents(payerMachine, start(), [
    reserve('a', 70_000),
    settle('a', 70_000),
  ])
  t.match(snapshot.context, { inFlight: 0n, cap: 170_000n, settledTotal: 70_000n })
  const rich = stepMachineThroughEvents(payerMachine, snapshot, [
    reserve('b', 5_000_000),
    settle('b', 5_000_000),
  ])
  t.equal(rich.snapshot.context.cap, MAX_OPTIMISTIC_PAYER_CAP)
})

t.test(
  'a loss of a delivered payment ends the trust permanently, an undelivered one does not',
  async (t) => {
    const kept = stepMachineThroughEvents(payerMachine, start(), [
      reserve('a', 50_000),
      lose('a', 50_000, false),
    ]).snapshot
    t.match(kept, {
      value: 'trusted',
      context: { inFlight: 0n, losses: 0n, cap: INITIAL_OPTIMISTIC_PAYER_CAP },
    })
    const { snapshot } = stepMachineThroughEvents(payerMachine, start(), [
      reserve('a', 50_000),
      lose('a', 50_000, true),
      reserve('b', 50_000),
      settle('b', 50_000),
    ])
    t.match(snapshot, { value: 'blocked', context: { inFlight: 0n, losses: 50_000n, cap: 0n } })
    t.equal(modeOf(snapshot, reserve('c', 1)), 'first')
    t.equal(refusal(snapshot, reserve('c', 1, { balance: 0n })), 'payment_invalid')
    t.equal(refusal(snapshot, reserve('c', 1, { balanceBlock: 1n })), 'payment_invalid')
  },
)

t.test('a repeated end frees the reservation once, and an unknown event is rejected', async (t) => {
  const { snapshot } = stepMachineThroughEvents(payerMachine, start(), [
    reserve('a', 5),
    release('a'),
    release('a'),
  ])
  t.equal(snapshot.context.inFlight, 0n)
  t.equal(refusal(snapshot, { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

const sound = ({ value, context }: Snapshot) => {
  const held = sumMicros(Object.values(context.reservations).map(({ price }) => price))
  if (held !== context.inFlight) return 'in flight is not the sum of the reservations'
  if ((value === 'blocked') !== context.losses > 0n) return 'a loss without an end of trust'
  if (value === 'blocked' && context.cap !== 0n) return 'trust after a loss'
  return context.cap > MAX_OPTIMISTIC_PAYER_CAP ? 'trusted with too much' : null
}

const alphabet = [
  reserve('a', 60_000),
  reserve('b', 60_000, { balance: 100_000n }),
  reserve('b', 5_000_000, { balanceBlock: 99n }),
  settle('a', 60_000),
  settle('b', 5_000_000, 120n),
  release('a'),
  release('b'),
  lose('a', 60_000, true),
  lose('b', 60_000, false),
]

t.test('on all paths reservations, trust and losses agree', async (t) => {
  const bucket = ({ value, context }: Snapshot) =>
    stringifyWithBigints([
      value,
      Object.keys(context.reservations),
      context.cap,
      context.lastSettledBlock,
    ])
  const walks = shortestEventPaths(payerMachine, start(), alphabet, bucket, 20_000)
  t.ok(walks.length > 20, `${walks.length} paths`)
  for (const walk of walks)
    t.equal(sound(stepMachineThroughEvents(payerMachine, start(), walk).snapshot), null)
})

t.test('no sequence of events violates these rules', async (t) => {
  const walks = fc.array(fc.constantFrom<PayerMachineEvent>(...alphabet), { maxLength: 40 })
  fc.assert(
    fc.property(walks, (events) => {
      let snapshot = start()
      for (const event of events) {
        const taken = stepStateMachine(payerMachine, snapshot, event)
        if (taken.refused === null) snapshot = taken.snapshot
      }
      return sound(snapshot) === null
    }),
    { numRuns: 300, verbose: 1 },
  )
  t.pass('sound')
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('payer-v1.json')) {
    const snapshot = restoreSnapshot(payerMachine, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    t.equal(refusal(snapshot, reserve('new', 1, { balanceBlock: 10_000n })), null)
  }
})
