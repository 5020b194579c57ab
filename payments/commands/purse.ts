import { ServiceError } from '../../core/errors.ts'
import { add, split, subtract, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import { TIP_FEE_BPS } from '../../core/prices.ts'
import type { Command, Turn } from '../../actors/command.ts'
import { openBackpack, type NewBackpack } from '../../actors/commands/backpacks.ts'
import type { SnapshotOf } from '../../actors/registry.ts'
import type { Spender } from '../admission.ts'
import { cashOf, GRANTS, pour, promoOf, TREASURY, type Purse, type Source } from '../ledger.ts'
import { takeOutlay } from './outlay.ts'

/** The birth of an agent with its starter credits and the rows that describe it. */
export interface Birth {
  readonly agentId: string
  readonly starter: Micros
  /** The agent that brought it. */
  readonly referrer?: string | null
  /** The Backpack it is born with, under its id. */
  readonly backpack?: { readonly id: string; readonly terms: NewBackpack }
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
}

export const agentCreate: Command<Birth, void> = {
  name: 'agent.create',
  kind: 'agent',
  creates: true,
  apply(turn, { agentId, starter, referrer = null, backpack, rows }) {
    // An onboarding that is repeated: the agent lives by what it was born with.
    if (turn.has('agent', agentId)) return
    turn.create('agent', agentId, { agentId, promo: starter, cash: ZERO, referrer })
    if (starter > ZERO) {
      turn.transfer({ debit: GRANTS, credit: promoOf(agentId), amount: starter, kind: 'grant' })
    }
    if (backpack !== undefined) openBackpack(turn, backpack.id, backpack.terms)
    for (const { table, row } of rows) turn.row(table, row)
  },
  note: ({ starter }) => ({ starter }),
}

export interface Balance extends Purse {
  readonly held: Micros
  /** Held in memory by running calls. */
  readonly reserved: Micros
  /** What a new call could spend right now. */
  readonly available: Micros
  readonly tier: SnapshotOf<'agent'>['value']
}

/** The credits of an agent, its inbox absorbed. */
export const balance: Command<Record<string, never>, Balance> = {
  name: 'balance',
  kind: 'agent',
  apply(turn) {
    const { value, context } = turn.peek('agent', turn.aggregateId)
    const { promo, cash, held } = context
    const reserved = turn.soft.total
    const available = subtract(add(promo, cash), reserved)
    return { promo, cash, held, reserved, available, tier: value }
  },
}

export interface Payment {
  readonly toAgentId: string
  readonly amount: Micros
  readonly memo: string | null
  /** Whether promotional credits may leave the agent (decision 25). */
  readonly promoTransferable: boolean
  readonly spender: Spender
}

export interface Paid {
  readonly transferId: string
  readonly amount: Micros
  readonly fee: Micros
  readonly balance: Micros
}

/** An instant transfer of credits, without a fee; the limits of its spender count it. */
export const transferSend: Command<Payment, Paid> = {
  name: 'transfer.send',
  kind: 'agent',
  apply: (turn, payment) => pay(turn, payment, ZERO, 'agent_send'),
  note: ({ toAgentId, amount }) => ({ toAgentId, amount }),
}

/** A tip: 5 % to the treasury, the rest to the recipient. */
export const tip: Command<Payment, Paid> = {
  name: 'tip',
  kind: 'agent',
  apply(turn, payment) {
    const shares = split(payment.amount, { kept: 10_000n - TIP_FEE_BPS }, 'fee')
    const fee = shares.find(({ account }) => account === 'fee')?.amount ?? ZERO
    return pay(turn, payment, fee, 'tip')
  },
  note: ({ toAgentId, amount }) => ({ toAgentId, amount }),
}

/** Debits the payer and leaves the credit in the receiver's inbox, in one commit. */
function pay(turn: Turn, payment: Payment, fee: Micros, permission: 'agent_send' | 'tip'): Paid {
  const { toAgentId, amount, memo, promoTransferable, spender } = payment
  const agentId = turn.aggregateId
  const kind = permission === 'tip' ? 'tip' : 'send'
  if (toAgentId === agentId) throw new ServiceError('self_transfer')
  const transferId = turn.id()
  const from = promoTransferable ? 'any' : 'cash'
  const parts = takeOutlay(turn, spender, { id: transferId, permission, amount, from })
  // The fee is taken from cash first, so that a recipient gets promotional credits as what they are.
  const sources = [
    { account: cashOf(agentId), amount: parts.cash },
    { account: promoOf(agentId), amount: parts.promo },
  ]
  const fees = pour(sources, [{ account: TREASURY, amount: fee, kind: 'tip_fee' }], transferId)
  for (const transfer of fees) turn.transfer({ ...transfer, memo })
  const left = sources.map((source) => without(source, fees))
  for (const { account, amount: part } of left) {
    if (part === ZERO) continue
    const credit = account === cashOf(agentId) ? cashOf(toAgentId) : promoOf(toAgentId)
    const moved = { debit: account, credit, amount: part, promoAllowed: promoTransferable }
    turn.transfer({ ...moved, kind, callId: transferId, memo })
  }
  const [cash = ZERO, promo = ZERO] = left.map((source) => source.amount)
  turn.inbox({
    receiver: toAgentId,
    receiverKind: 'agent',
    id: `${transferId}-${kind}`,
    event: { type: 'CREDIT', promo, cash },
  })
  const got = subtract(amount, fee)
  turn.event({
    type: 'topup',
    to: toAgentId,
    data: {
      source: kind,
      from_agent_id: agentId,
      amount_usdc: toUsdc(got),
      transfer_id: transferId,
    },
  })
  const { context } = turn.peek('agent', agentId)
  return { transferId, amount: got, fee, balance: add(context.promo, context.cash) }
}

const without = (source: Source, gone: readonly { debit: string; amount: Micros }[]): Source => ({
  account: source.account,
  amount: gone
    .filter((transfer) => transfer.debit === source.account)
    .reduce((left, transfer) => subtract(left, transfer.amount), source.amount),
})
