import {
  smallerOfTwoMicros,
  asMicros,
  subtractMicros,
  toUsdc,
  ZERO_MICROS,
  type Micros,
} from '../../core/money.ts'
import { REFERRAL_REWARD, type BonusLeft } from '../../domain/pricing.ts'
import type { LedgerTransferKind } from '../../core/aggregate-commit-row-types.ts'
import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import { claimDepositBonus } from '../deposits/claim-bonus.ts'
import {
  agentCashAccount,
  PROMO_GRANTS_ACCOUNT,
  paymentClearingAccount,
  agentSubMinimumDepositsAccount,
  agentPromoAccount,
  TREASURY_FEES_ACCOUNT,
  externalChainAccount,
  type PaymentChainName,
} from '../ledger-accounts.ts'

/** USDC that arrived for an agent and is booked in the agent's pending account. */
export interface DepositMessage {
  readonly type: 'DEPOSIT'
  /** Identifies the arrival: chain, transaction and log index, or the settlement. */
  readonly id: string
  readonly pending: Micros
  readonly chain: PaymentChainName
  readonly tx: string | null
  /** The source reported to the owner. */
  readonly source: 'deposit' | 'x402'
  /** What the owner and the day leave for a bonus, read with the message. */
  readonly bonusLeft: BonusLeft
}

/** A deposit that a reorganisation has undone. */
export interface ReversedDepositMessage {
  readonly type: 'UNDO_DEPOSIT'
  readonly id: string
  readonly amount: Micros
  readonly chain: PaymentChainName
  /**
   * Set for an undone settlement, which its chain owes meanwhile; a deposit is returned at once.
   */
  readonly to?: 'owed'
}

/** Credits the pending amount, the bonus of a first deposit and the referrer's reward. */
export function applyDepositMessage(ctx: CommandContext, deposit: DepositMessage): void {
  const agentId = ctx.aggregateId
  const before = ctx.snapshotOf('agent', agentId).context
  const { type, id, pending, bonusLeft } = deposit
  const after = ctx.send('agent', agentId, { type, id, pending, bonusLeft }).context
  const credited = subtractMicros(after.cash, before.cash)
  const bonus = subtractMicros(after.promo, before.promo)
  // The memo names the arrival that reached the minimum; smaller ones before it are credited with
  // it.
  transferNonZero(
    ctx,
    agentSubMinimumDepositsAccount(agentId),
    agentCashAccount(agentId),
    credited,
    'topup',
    id,
  )
  transferNonZero(ctx, PROMO_GRANTS_ACCOUNT, agentPromoAccount(agentId), bonus, 'bonus')
  claimDepositBonus(ctx, bonus)
  if (!before.activated && after.activated && after.referrer !== null)
    rewardReferrer(ctx, after.referrer)
  ctx.row('deposit_credits', {
    id: ctx.newId(),
    agent_id: agentId,
    arrival: id,
    amount_micros: pending.toString(),
    credited_micros: credited.toString(),
    bonus_micros: bonus.toString(),
    at: new Date(ctx.now).toISOString(),
  })
  ctx.event({
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
function rewardReferrer(ctx: CommandContext, referrer: string): void {
  transferNonZero(
    ctx,
    PROMO_GRANTS_ACCOUNT,
    agentPromoAccount(referrer),
    REFERRAL_REWARD,
    'referral',
  )
  ctx.inbox({
    receiver: referrer,
    receiverKind: 'agent',
    id: `referral:${ctx.aggregateId}`,
    event: { type: 'CREDIT', promo: REFERRAL_REWARD, cash: ZERO_MICROS },
  })
  ctx.event({
    type: 'topup',
    to: referrer,
    data: {
      source: 'referral',
      amount_usdc: toUsdc(REFERRAL_REWARD),
      from_agent_id: ctx.aggregateId,
    },
  })
}

/** Takes back the credits that are left; what was spent is the treasury's loss (decision 30). */
export function applyReversedDepositMessage(
  ctx: CommandContext,
  { id, amount, chain, to }: ReversedDepositMessage,
): void {
  const agentId = ctx.aggregateId
  const before = ctx.snapshotOf('agent', agentId).context
  const { context: after } = ctx.send('agent', agentId, { type: 'UNDO_DEPOSIT', id, amount })
  const bonus = before.firstDeposit?.id === id ? before.firstDeposit.bonus : ZERO_MICROS
  const returned = smallerOfTwoMicros(before.promo, bonus)
  const parts = [
    {
      account: agentSubMinimumDepositsAccount(agentId),
      amount: subtractMicros(before.pending, after.pending),
    },
    { account: agentCashAccount(agentId), amount: subtractMicros(before.cash, after.cash) },
    {
      account: agentPromoAccount(agentId),
      amount: asMicros(before.promo - after.promo - returned),
    },
  ]
  const account = to === 'owed' ? paymentClearingAccount(chain) : externalChainAccount(chain)
  transferNonZero(ctx, agentPromoAccount(agentId), PROMO_GRANTS_ACCOUNT, returned, 'reorg')
  for (const part of parts) transferNonZero(ctx, part.account, account, part.amount, 'reorg')
  const missing = parts.reduce((left, part) => subtractMicros(left, part.amount), amount)
  transferNonZero(ctx, TREASURY_FEES_ACCOUNT, account, missing, 'loss')
  ctx.event({
    type: 'topup',
    to: agentId,
    data: { source: 'reorg', amount_usdc: -toUsdc(amount), chain, deposit_id: id },
  })
}

function transferNonZero(
  ctx: CommandContext,
  debit: string,
  credit: string,
  amount: Micros,
  kind: LedgerTransferKind,
  memo: string | null = null,
): void {
  if (amount > ZERO_MICROS) ctx.transfer({ debit, credit, amount, kind, memo })
}
