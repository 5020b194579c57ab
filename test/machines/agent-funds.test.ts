import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { ZERO } from '../../core/money.ts'
import { agent, type AgentEvent } from '../../machines/agent.ts'
import { begin, play, step, usd } from './play.ts'

const NOON = Date.UTC(2026, 10, 21, 12)
type Held = Extract<AgentEvent, { type: 'HOLD' }>
type Snapshot = SnapshotFrom<typeof agent>

const open = (promo: number, cash: number): Snapshot =>
  begin(agent, { agentId: 'agent-1', promo: usd(promo), cash: usd(cash) }).snapshot
const hold = (callId: string, amount: number, more: Partial<Held> = {}): AgentEvent => ({
  type: 'HOLD',
  callId,
  amount: usd(amount),
  reserved: ZERO,
  keyId: null,
  keyCap: null,
  keyReserved: ZERO,
  at: NOON,
  taskId: 'task-1',
  backpackId: null,
  tool: 'web_search',
  idempotencyKey: null,
  ...more,
})
const charge = (amount: number) =>
  ({ type: 'CHARGE', amount: usd(amount), keyId: null, keyCap: null }) as const
const capture = (callId: string, amount: number) =>
  ({ type: 'CAPTURE', callId, amount: usd(amount) }) as const
const release = (callId: string) => ({ type: 'RELEASE', callId }) as const
const refusal = (snapshot: Snapshot, event: AgentEvent) => step(agent, snapshot, event).refused

const payment = { payer: 'eip155:8453:0xaa', settlement: 'stl_1', chain: 'base' } as const

t.test(
  'a call that another rail pays leaves the purse alone and counts in every cap',
  async (t) => {
    const cap = { keyId: 'key-1', keyCap: usd(50), payment }
    const { snapshot } = step(agent, open(0, 0), hold('call-1', 40, cap))
    t.match(snapshot.context, { promo: 0n, cash: 0n, held: 0n })
    t.match(snapshot.context.holds['call-1'], { promo: 0n, cash: 0n, external: 40n, payment })
    t.equal(refusal(snapshot, hold('call-2', 11, cap)), 'key_cap_exceeded')
    t.equal(refusal(snapshot, capture('call-1', 41)), 'call_settled', 'never above what was held')
    const { context } = step(agent, snapshot, capture('call-1', 40)).snapshot
    t.match(context, { promo: 0n, cash: 0n, held: 0n, holds: {}, keySpent: { 'key-1': 40n } })
    const freed = step(agent, snapshot, release('call-1')).snapshot.context
    t.match(freed, { promo: 0n, cash: 0n, held: 0n, keySpent: {} })
  },
)

const deposit = (amount: number, id = `deposit-${amount}`): AgentEvent => ({
  type: 'DEPOSIT',
  id,
  pending: usd(amount),
})

t.test(
  'deposits accumulate to the smallest one, and the first credited brings a bonus',
  async (t) => {
    const small = step(agent, open(0, 0), deposit(999_999)).snapshot
    t.match(small.context, { pending: 999_999n, cash: 0n, promo: 0n, firstDeposit: null })
    t.equal(small.value, 'empty')
    const { context } = step(agent, small, deposit(1, 'b')).snapshot
    const firstDeposit = { id: 'b', bonus: 250_000n }
    t.match(context, { pending: 0n, cash: 1_000_000n, promo: 250_000n, firstDeposit })
    const { snapshot } = play(agent, small, [deposit(1, 'b'), deposit(5_000_000)])
    t.match(snapshot.context, { cash: 6_000_000n, promo: 250_000n, firstDeposit }, 'once')
  },
)

t.test('an undone deposit takes back what is there, its bonus first, and never more', async (t) => {
  const first = step(agent, open(10, 0), deposit(2_000_000, 'a')).snapshot
  const undo = (id: string, amount: number): AgentEvent => ({
    type: 'UNDO_DEPOSIT',
    id,
    amount: usd(amount),
  })
  const whole = step(agent, first, undo('a', 2_000_000)).snapshot.context
  t.match(whole, { pending: 0n, cash: 0n, promo: 10n, firstDeposit: null })
  const spent = play(agent, first, [charge(1_000_000), undo('a', 2_000_000)]).snapshot.context
  t.match(spent, { pending: 0n, cash: 0n, promo: 0n }, 'what is left, promotional credits too')
  const later = play(agent, first, [deposit(3_000_000, 'c'), undo('c', 3_000_000)])
  t.match(later.snapshot.context, { cash: 2_000_000n, promo: 500_010n, firstDeposit: { id: 'a' } })
})

t.test('what a fleet lent goes back as far as it is there', async (t) => {
  const back: AgentEvent = { type: 'TAKE_BACK', amount: usd(50), from: 'cash' }
  t.match(step(agent, open(30, 70), back).snapshot.context, { promo: 30n, cash: 20n })
  t.match(step(agent, open(30, 20), back).snapshot.context, { promo: 30n, cash: 0n })
  const join: AgentEvent = { type: 'JOIN_FLEET', fleetId: 'fleet-1' }
  const { snapshot } = step(agent, open(0, 0), join)
  t.equal(snapshot.context.fleetId, 'fleet-1')
  t.equal(refusal(snapshot, join), 'already_in_fleet')
})
