import t from 'tap'
import { ZERO_MICROS } from '../../core/money.ts'
import type { BonusLeft } from '../../domain/pricing.ts'
import { agentMachine } from '../../machines/agent-machine.ts'
import type { AgentMachineEvent } from '../../machines/agent/agent-machine-events.ts'
import {
  AGENT_TEST_NOON_MS,
  sampleAgentHoldEvent,
  sampleAgentSnapshot,
  type AgentMachineSnapshot,
} from '../support/machines/agent-machine-sample-events.ts'
import {
  stepMachineThroughEvents,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

const NO_KEY = { keyId: null, keyCap: null, keyReserved: ZERO_MICROS } as const
const charge = (amount: number) =>
  ({
    type: 'CHARGE',
    amount: microUsd(amount),
    ...NO_KEY,
    heldAt: AGENT_TEST_NOON_MS,
    at: AGENT_TEST_NOON_MS,
  }) as const
const capture = (callId: string, amount: number) =>
  ({ type: 'CAPTURE', callId, amount: microUsd(amount), at: AGENT_TEST_NOON_MS }) as const
const release = (callId: string) => ({ type: 'RELEASE', callId }) as const
const refusal = (snapshot: AgentMachineSnapshot, event: AgentMachineEvent) =>
  stepStateMachine(agentMachine, snapshot, event).refused

const payment = { payer: 'eip155:8453:0xaa', settlement: 'stl_1', chain: 'base' } as const

t.test('a call paid on another rail uses no credits and counts in every cap', async (t) => {
  const cap = { keyId: 'key-1', keyCap: microUsd(50), payment }
  const { snapshot } = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(0, 0),
    sampleAgentHoldEvent('call-1', 40, cap),
  )
  t.match(snapshot.context, { promo: 0n, cash: 0n, held: 0n })
  t.match(snapshot.context.holds['call-1'], { promo: 0n, cash: 0n, external: 40n, payment })
  t.equal(refusal(snapshot, sampleAgentHoldEvent('call-2', 11, cap)), 'key_cap_exceeded')
  t.equal(refusal(snapshot, capture('call-1', 41)), 'call_settled', 'never above what was held')
  const { context } = stepStateMachine(agentMachine, snapshot, capture('call-1', 40)).snapshot
  t.match(context, { promo: 0n, cash: 0n, held: 0n, holds: {}, keySpent: { 'key-1': 40n } })
  const freed = stepStateMachine(agentMachine, snapshot, release('call-1')).snapshot.context
  t.match(freed, { promo: 0n, cash: 0n, held: 0n, keySpent: {} })
})

const deposit = (
  amount: number,
  id = `deposit-${amount}`,
  left: { bonusLeft?: BonusLeft } = {},
): AgentMachineEvent => ({
  ...left,
  type: 'DEPOSIT',
  id,
  pending: microUsd(amount),
})

t.test(
  'deposits accumulate to the minimum, and the first credited one brings a bonus',
  async (t) => {
    const small = stepStateMachine(
      agentMachine,
      sampleAgentSnapshot(0, 0),
      deposit(999_999),
    ).snapshot
    t.match(small.context, { pending: 999_999n, cash: 0n, promo: 0n, firstDeposit: null })
    t.equal(small.value, 'empty')
    const { context } = stepStateMachine(agentMachine, small, deposit(1, 'b')).snapshot
    const firstDeposit = { id: 'b', bonus: 250_000n }
    t.match(context, { pending: 0n, cash: 1_000_000n, promo: 250_000n, firstDeposit })
    const { snapshot } = stepMachineThroughEvents(agentMachine, small, [
      deposit(1, 'b'),
      deposit(5_000_000),
    ])
    t.match(snapshot.context, { cash: 6_000_000n, promo: 250_000n, firstDeposit }, 'once')
  },
)

t.test('a bonus that the day has no room for stays ahead, one of the owner does not', async (t) => {
  const none = sampleAgentSnapshot(0, 0)
  const spent = stepStateMachine(
    agentMachine,
    none,
    deposit(2_000_000, 'a', { bonusLeft: ZERO_MICROS }),
  )
  t.match(spent.snapshot.context, {
    cash: 2_000_000n,
    promo: 0n,
    firstDeposit: null,
    activated: true,
  })
  const next = deposit(4_000_000, 'b', { bonusLeft: microUsd(500_000) })
  t.match(stepStateMachine(agentMachine, spent.snapshot, next).snapshot.context, {
    promo: 500_000n,
    firstDeposit: { id: 'b', bonus: 500_000n },
  })
  const had = stepMachineThroughEvents(agentMachine, none, [
    deposit(2_000_000, 'a', { bonusLeft: null }),
    next,
  ])
  t.match(had.snapshot.context, { promo: 0n, firstDeposit: { id: 'a', bonus: 0n } })
})

t.test('a reverted deposit takes back at most the balance, its bonus first', async (t) => {
  const first = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(10, 0),
    deposit(2_000_000, 'a'),
  ).snapshot
  const undo = (id: string, amount: number): AgentMachineEvent => ({
    type: 'UNDO_DEPOSIT',
    id,
    amount: microUsd(amount),
  })
  const whole = stepStateMachine(agentMachine, first, undo('a', 2_000_000)).snapshot.context
  t.match(whole, { pending: 0n, cash: 0n, promo: 10n, firstDeposit: null })
  const spent = stepMachineThroughEvents(agentMachine, first, [
    charge(1_000_000),
    undo('a', 2_000_000),
  ]).snapshot.context
  t.match(spent, { pending: 0n, cash: 0n, promo: 0n }, 'what is left, promotional credits too')
  const later = stepMachineThroughEvents(agentMachine, first, [
    deposit(3_000_000, 'c'),
    undo('c', 3_000_000),
  ])
  t.match(later.snapshot.context, { cash: 2_000_000n, promo: 500_010n, firstDeposit: { id: 'a' } })
})

const lend = (callId: string, held: number, bonus = 0, fleetId = 'fleet-1') =>
  ({
    type: 'LEND',
    fleetId,
    callId,
    held: microUsd(held),
    bonus: microUsd(bonus),
    at: AGENT_TEST_NOON_MS,
  }) as const
const join = { type: 'JOIN_FLEET', fleetId: 'fleet-1' } as const
const leave = (fleetId: string | null) => ({ type: 'LEAVE_FLEET', fleetId }) as const
const own = ({ context }: AgentMachineSnapshot) => {
  const { promo, cash, held, holds } = context
  return { promo, cash, held, open: Object.keys(holds) }
}

t.test('an agent joins one fleet', async (t) => {
  const { snapshot } = stepStateMachine(agentMachine, sampleAgentSnapshot(0, 0), join)
  t.equal(snapshot.context.fleetId, 'fleet-1')
  t.equal(refusal(snapshot, join), 'already_in_fleet')
})

t.test('an agent leaves only its own fleet and may join again', async (t) => {
  t.equal(refusal(sampleAgentSnapshot(0, 0), leave('fleet-1')), 'not_in_fleet')
  t.equal(
    refusal(sampleAgentSnapshot(0, 0), leave(null)),
    'not_in_fleet',
    'whichever that would be',
  )
  const { snapshot } = stepStateMachine(agentMachine, sampleAgentSnapshot(0, 0), join)
  t.equal(refusal(snapshot, leave('fleet-2')), 'not_in_fleet')
  t.equal(refusal(snapshot, leave(null)), 'not_in_fleet', 'a fleet id is required')
  const left = stepStateMachine(agentMachine, snapshot, leave('fleet-1')).snapshot
  t.equal(left.context.fleetId, null)
  t.equal(refusal(left, leave('fleet-1')), 'not_in_fleet', 'once')
  const elsewhere = { ...join, fleetId: 'fleet-2' }
  t.equal(stepStateMachine(agentMachine, left, elsewhere).snapshot.context.fleetId, 'fleet-2')
})

t.test('an agent that leaves keeps the loans of its calls, by lender', async (t) => {
  const { snapshot } = stepMachineThroughEvents(agentMachine, sampleAgentSnapshot(0, 10), [
    join,
    lend('call-1', 30, 5),
    leave('fleet-1'),
  ])
  t.strictSame(own(snapshot), { promo: 0n, cash: 10n, held: 30n, open: ['call-1'] })
  const next = stepMachineThroughEvents(agentMachine, snapshot, [
    { ...join, fleetId: 'fleet-2' },
    lend('call-1', 8, 2, 'fleet-2'),
    lend('call-1', 1, 0, 'fleet-1'),
    sampleAgentHoldEvent('call-1', 45),
  ]).snapshot
  t.strictSame(next.context.holds['call-1']?.loans, [
    { fleetId: 'fleet-1', promo: 5n, cash: 26n },
    { fleetId: 'fleet-2', promo: 2n, cash: 6n },
  ])
  t.strictSame(own(next), { promo: 0n, cash: 4n, held: 45n, open: ['call-1'] })
  const paid = stepStateMachine(agentMachine, next, capture('call-1', 20)).snapshot
  t.strictSame(own(paid), { promo: 0n, cash: 4n, held: 0n, open: [] }, 'none of it becomes its own')
})

t.test('a loan belongs to one call and increases no balance', async (t) => {
  const { snapshot, emitted } = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(0, 10),
    lend('call-1', 30, 5),
  )
  t.strictSame(own(snapshot), { promo: 0n, cash: 10n, held: 30n, open: ['call-1'] })
  t.equal(snapshot.value, 'critical')
  t.strictSame(emitted, [])
  t.equal(
    refusal(snapshot, sampleAgentHoldEvent('call-2', 11)),
    'payment_required',
    'no other call can use it',
  )
  t.equal(refusal(snapshot, { ...charge(11), callId: 'call-2' }), 'payment_required')
  const taken = {
    amount: microUsd(11),
    reserved: ZERO_MICROS,
    from: 'any',
    at: AGENT_TEST_NOON_MS,
  } as const
  const debit = { type: 'DEBIT', ...taken, ...NO_KEY } as const
  t.equal(refusal(snapshot, debit), 'payment_required', 'nor can it be sent away')
  t.equal(refusal(snapshot, capture('call-1', 1)), 'call_settled', 'its call is not let in yet')
  const twice = stepStateMachine(agentMachine, snapshot, lend('call-1', 7)).snapshot
  t.strictSame(own(twice), { promo: 0n, cash: 10n, held: 37n, open: ['call-1'] })
  const gone = stepStateMachine(agentMachine, twice, release('call-1')).snapshot
  t.strictSame(own(gone), { promo: 0n, cash: 10n, held: 0n, open: [] }, 'it leaves as it came')
})

t.test('a hold uses the own credits first, then the loan', async (t) => {
  const lent = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(4, 10),
    lend('call-1', 30, 5),
  ).snapshot
  t.equal(refusal(lent, sampleAgentHoldEvent('call-1', 45)), 'payment_required')
  const held = stepStateMachine(agentMachine, lent, sampleAgentHoldEvent('call-1', 40)).snapshot
  t.strictSame(own(held), { promo: 0n, cash: 4n, held: 40n, open: ['call-1'] })
  t.match(held.context.holds['call-1'], {
    promo: 9n,
    cash: 31n,
    loans: [{ fleetId: 'fleet-1', promo: 5n, cash: 25n }],
    tool: 'web_search',
  })
  t.equal(refusal(held, lend('call-1', 1)), 'call_settled', 'it is let in: it needs no more')
  const after = (cost: number) =>
    own(stepStateMachine(agentMachine, held, capture('call-1', cost)).snapshot)
  t.strictSame(after(40), { promo: 0n, cash: 4n, held: 0n, open: [] })
  t.strictSame(after(12), { promo: 0n, cash: 4n, held: 0n, open: [] }, "the rest is the pool's")
  t.strictSame(after(3), { promo: 1n, cash: 10n, held: 0n, open: [] })
  const freed = stepStateMachine(agentMachine, held, release('call-1')).snapshot
  t.strictSame(own(freed), { promo: 4n, cash: 10n, held: 0n, open: [] })
})

t.test('a call in memory is charged to its loan, then to the own credits', async (t) => {
  const lent = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(4, 10),
    lend('call-1', 30, 5),
  ).snapshot
  const paid = stepStateMachine(agentMachine, lent, { ...charge(36), callId: 'call-1' }).snapshot
  t.strictSame(own(paid), { promo: 0n, cash: 8n, held: 0n, open: [] })
  t.equal(refusal(lent, { ...charge(45), callId: 'call-1' }), 'payment_required')
})

t.test('calls with loans report a low balance once, when the own balance falls', async (t) => {
  let snapshot = sampleAgentSnapshot(0, 60_000)
  const told: unknown[] = []
  const take = (event: AgentMachineEvent) => {
    const next = stepStateMachine(agentMachine, snapshot, event)
    told.push(...next.emitted)
    snapshot = next.snapshot
  }
  take(charge(60_000))
  for (const callId of ['a', 'b', 'c']) {
    take(lend(callId, 300_000))
    take(sampleAgentHoldEvent(callId, 300_000))
    take(callId === 'b' ? release(callId) : capture(callId, 200_000))
  }
  t.equal(told.length, 1)
  t.match(told, [{ type: 'low_balance', tier: 'empty', balance: 0n }])
})
