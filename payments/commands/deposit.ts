import { least, micros, subtract, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import { REFERRAL_REWARD } from '../../core/prices.ts'
import type { TransferKind } from '../../core/rows.ts'
import type { Turn } from '../../actors/command.ts'
import {
  cashOf,
  GRANTS,
  owedOf,
  pendingOf,
  promoOf,
  TREASURY,
  worldOf,
  type ChainName,
} from '../ledger.ts'

/** USDC that arrived for an agent; the ledger has it in the agent's pending account already. */
export interface Deposit {
  readonly type: 'DEPOSIT'
  /** Names the arrival: chain, transaction and log index, or the settlement that brought it. */
  readonly id: string
  readonly pending: Micros
  readonly chain: ChainName
  readonly tx: string | null
  /** What its owner is told it was. */
  readonly source: 'deposit' | 'x402'
}

/** A deposit that the chain has undone. */
export interface UndoneDeposit {
  readonly type: 'UNDO_DEPOSIT'
  readonly id: string
  readonly amount: Micros
  readonly chain: ChainName
  /** A settlement that was undone is owed by its chain meanwhile; a deposit goes back at once. */
  readonly to?: 'owed'
}

/** Credits what is due, with the bonus of a first deposit and the referrer's reward. */
export function absorbDeposit(turn: Turn, deposit: Deposit): void {
  const agentId = turn.aggregateId
  const before = turn.peek('agent', agentId).context
  const { type, id, pending } = deposit
  const after = turn.step('agent', agentId, { type, id, pending }).context
  const credited = subtract(after.cash, before.cash)
  const bonus = subtract(after.promo, before.promo)
  // Its memo names the arrival that completed it: smaller ones before it are credited with it.
  move(turn, pendingOf(agentId), cashOf(agentId), credited, 'topup', id)
  move(turn, GRANTS, promoOf(agentId), bonus, 'bonus')
  if (!before.activated && after.activated && after.referrer !== null)
    rewardReferrer(turn, after.referrer)
  turn.row('deposit_credits', {
    id: turn.id(),
    agent_id: agentId,
    arrival: id,
    amount_micros: pending.toString(),
    credited_micros: credited.toString(),
    bonus_micros: bonus.toString(),
    at: new Date(turn.now).toISOString(),
  })
  turn.event({
    type: 'topup',
    to: agentId,
    data: {
      source: deposit.source,
      amount_usdc: toUsdc(pending),
      credited_usdc: toUsdc(credited),
      bonus_usdc: toUsdc(bonus),
      pending_usdc: toUsdc(after.pending),
      chain: deposit.chain,
      tx_hash: deposit.tx,
      deposit_id: id,
    },
  })
}

/** The first deposit of a referred agent, once (decision 26). */
function rewardReferrer(turn: Turn, referrer: string): void {
  move(turn, GRANTS, promoOf(referrer), REFERRAL_REWARD, 'referral')
  turn.inbox({
    receiver: referrer,
    receiverKind: 'agent',
    id: `referral:${turn.aggregateId}`,
    event: { type: 'CREDIT', promo: REFERRAL_REWARD, cash: ZERO },
  })
  turn.event({
    type: 'topup',
    to: referrer,
    data: {
      source: 'referral',
      amount_usdc: toUsdc(REFERRAL_REWARD),
      from_agent_id: turn.aggregateId,
    },
  })
}

/** Takes back what is left of it; what was spent meanwhile is the treasury's loss (decision 30). */
export function absorbUndo(turn: Turn, { id, amount, chain, to }: UndoneDeposit): void {
  const agentId = turn.aggregateId
  const before = turn.peek('agent', agentId).context
  const { context: after } = turn.step('agent', agentId, { type: 'UNDO_DEPOSIT', id, amount })
  const bonus = before.firstDeposit?.id === id ? before.firstDeposit.bonus : ZERO
  const returned = least(before.promo, bonus)
  const parts = [
    { account: pendingOf(agentId), amount: subtract(before.pending, after.pending) },
    { account: cashOf(agentId), amount: subtract(before.cash, after.cash) },
    { account: promoOf(agentId), amount: micros(before.promo - after.promo - returned) },
  ]
  const account = to === 'owed' ? owedOf(chain) : worldOf(chain)
  move(turn, promoOf(agentId), GRANTS, returned, 'reorg')
  for (const part of parts) move(turn, part.account, account, part.amount, 'reorg')
  const missing = parts.reduce((left, part) => subtract(left, part.amount), amount)
  move(turn, TREASURY, account, missing, 'loss')
  turn.event({
    type: 'topup',
    to: agentId,
    data: { source: 'reorg', amount_usdc: -toUsdc(amount), chain, deposit_id: id },
  })
}

function move(
  turn: Turn,
  debit: string,
  credit: string,
  amount: Micros,
  kind: TransferKind,
  memo: string | null = null,
): void {
  if (amount > ZERO) turn.transfer({ debit, credit, amount, kind, memo })
}
