import { HOUR } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { addMicros, subtractMicros, toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { LedgerTransferKind } from '../../core/aggregate-commit-row-types.ts'
import { createAggregateInSameCommit } from '../../actors/create-aggregate-in-same-commit.ts'
import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import type { ActorSnapshot } from '../../actors/machine-registry.ts'
import {
  toBountyRow,
  toBountyClosureRow,
  type BountyRecord,
  type BountyStatus,
  type PostedBountyRecord,
} from '../../persistence/payments/bounty-store.ts'
import type { Spender } from '../agent-call-admission-request-types.ts'
import type { BountyContentScore } from '../bounty-scoring.ts'
import {
  bountyEscrowAccount,
  bountyEscrowPromoAccount,
  agentCashAccount,
  agentPromoAccount,
  type PromoCashAmounts,
} from '../ledger-accounts.ts'
import { spendCreditsOrCash } from './spend-credits-reaching-other-agent.ts'

/** The terms of a bounty that its poster sets. */
export interface NewBounty {
  readonly title: string
  readonly description: string
  readonly domain: string
  readonly requiredKeywords: readonly string[]
  readonly minQuality: number
  readonly reward: Micros
  readonly ttlHours: number
}

/** A new bounty and its poster. */
export interface PostBountyInput extends NewBounty {
  readonly spender: Spender
}

/** Rules for funding a reward. */
export interface BountyRewardFundingRules {
  /** Whether promotional credits may become the reward of another agent (decisions 83 and 152). */
  readonly promoTransferable: boolean
}

export interface PostBountyResult {
  readonly bounty: BountyRecord
  /** The poster's remaining credits. */
  readonly balance: Micros
}

const CASH_ONLY =
  'A bounty takes deposited credits here: promotional credits buy tools and cannot reach another agent.'
const EXPIRY_TIMER_ID = 'expiry'
const OPEN_BOUNTY_FIELDS = {
  status: 'open',
  closedReason: null,
  closedAt: null,
  claimedBy: null,
  publicAgents: [],
} as const

/** Creates a bounty, in the commit of its poster. */
const openBountyCommand: AggregateCommand<PostedBountyRecord, void> = {
  name: 'bounty.open',
  kind: 'bounty',
  creates: true,
  apply(ctx, posted) {
    const { bountyId, posterId, promo, minQuality } = posted
    const [cash, expiresAt] = [subtractMicros(posted.reward, promo), posted.expiresAt.getTime()]
    const input = { bountyId, posterId, promo, cash, minQuality, at: ctx.now, expiresAt }
    ctx.create('bounty', bountyId, input)
    ctx.timer({
      id: EXPIRY_TIMER_ID,
      dueAt: expiresAt,
      command: expireBountyCommand.name,
      input: {},
    })
    ctx.row('bounties', toBountyRow(posted))
  },
  note: ({ posterId }) => ({ posterId }),
}

/**
 * Moves the reward from the poster into escrow: cash, or promotional credits first if those may
 * reach other agents (decision 83). Promotional and cash parts stay separate when they are paid or
 * returned. The spender's limits count the reward when it is posted; a return does not restore
 * them. Throws `payment_required` or `cash_required` if the poster has too few eligible credits.
 */
export const postBountyCommand: AggregateCommand<
  PostBountyInput & BountyRewardFundingRules,
  PostBountyResult
> = {
  name: 'bounty.post',
  kind: 'agent',
  apply(ctx, { ttlHours, promoTransferable, spender, ...wanted }) {
    const [posterId, bountyId] = [ctx.aggregateId, ctx.newId()]
    const outlay = { id: bountyId, permission: 'bounty', amount: wanted.reward } as const
    const parts = spendCreditsOrCash(ctx, spender, {
      ...outlay,
      from: promoTransferable ? 'any' : 'cash',
      cashOnly: CASH_ONLY,
    })
    const createdAt = new Date(ctx.now)
    const expiresAt = new Date(ctx.now + ttlHours * HOUR)
    const posted = { ...wanted, bountyId, posterId, promo: parts.promo, createdAt, expiresAt }
    const accounts = { from: agentPromoCashAccounts(posterId), to: bountyEscrowAccounts(bountyId) }
    transferPromoAndCash(ctx, parts, {
      ...accounts,
      kind: 'escrow',
      promoAllowed: promoTransferable,
    })
    createAggregateInSameCommit(ctx, bountyId, openBountyCommand, posted)
    const { promo, cash } = ctx.snapshotOf('agent', posterId).context
    return { bounty: { ...posted, ...OPEN_BOUNTY_FIELDS }, balance: addMicros(promo, cash) }
  },
  note: ({ reward }) => ({ reward }),
}

/** The content an agent hands in for a bounty, and its score. */
export interface ClaimBountyInput {
  readonly agentId: string
  readonly content: string
  readonly appraisal: BountyContentScore
}

export interface ClaimBountyResult {
  readonly reward: Micros
  readonly promo: Micros
  readonly quality: number
  readonly at: number
}

/** Pays the escrow to the first agent whose content meets the bounty. */
export const claimBountyCommand: AggregateCommand<ClaimBountyInput, ClaimBountyResult> = {
  name: 'bounty.claim',
  kind: 'bounty',
  apply(ctx, claim) {
    const { agentId, content, appraisal } = claim
    const { posterId, minQuality } = ctx.snapshotOf('bounty', ctx.aggregateId).context
    const { quality, missing } = appraisal
    const event = {
      type: 'CLAIM',
      agentId,
      quality,
      missing: missing.length,
      at: ctx.now,
    } as const
    withBountyDetails(() => ctx.send('bounty', ctx.aggregateId, event), ctx, {
      quality_score: quality,
      min_quality_score: minQuality,
      missing_keywords: missing,
      points: { substance: appraisal.substance, variety: appraisal.variety },
    })
    const { promo, reward } = closeBounty(ctx, agentId, 'bounty', { agentId, content, quality })
    const about = {
      bounty_id: ctx.aggregateId,
      amount_usdc: toUsdc(reward),
      quality_score: quality,
    }
    const paid = { status: 'paid', ...about, promo_usdc: toUsdc(promo), posted_by: posterId }
    ctx.event({ type: 'bounty_received', to: agentId, data: paid })
    const claimed = { status: 'claimed', ...about, claimed_by: agentId }
    ctx.event({ type: 'bounty_received', to: posterId, data: claimed })
    return { reward, promo, quality, at: ctx.now }
  },
  note: ({ agentId }) => ({ agentId }),
}

/** Cancels an open bounty and returns the whole escrow to its poster. */
export const cancelBountyCommand: AggregateCommand<{ agentId: string }, { at: number }> = {
  name: 'bounty.cancel',
  kind: 'bounty',
  apply(ctx, { agentId }) {
    const event = { type: 'CANCEL', agentId, at: ctx.now } as const
    const before = ctx.snapshotOf('bounty', ctx.aggregateId)
    withBountyDetails(() => ctx.send('bounty', ctx.aggregateId, event), ctx)
    // Repeating it changes nothing: the first cancellation returned the escrow.
    if (before.value !== 'open') return { at: before.context.closedAt ?? ctx.now }
    closeBounty(ctx, agentId, 'escrow_back', null)
    return { at: ctx.now }
  },
  note: ({ agentId }) => ({ agentId }),
}

/** Closes an unclaimed bounty when its timer fires; the whole escrow is returned. */
export const expireBountyCommand: AggregateCommand<Record<string, never>, void> = {
  name: 'bounty.expire',
  kind: 'bounty',
  apply(ctx) {
    const before = ctx.snapshotOf('bounty', ctx.aggregateId)
    const after = ctx.send('bounty', ctx.aggregateId, { type: 'EXPIRE', at: ctx.now })
    if (before.value !== 'open') return ctx.cancelTimer(EXPIRY_TIMER_ID)
    // By this node's clock it is too early: the row stays open.
    if (after.value !== 'open') closeBounty(ctx, after.context.posterId, 'escrow_back', null)
  },
}

/** Pays the escrow into the receiver's inbox and updates the row that lists read. */
function closeBounty(
  ctx: CommandContext,
  receiver: string,
  kind: LedgerTransferKind & ('bounty' | 'escrow_back'),
  claim: { agentId: string; content: string; quality: number } | null,
) {
  const bountyId = ctx.aggregateId
  const { value, context } = ctx.snapshotOf('bounty', bountyId)
  const { promo, cash, closedReason } = context
  ctx.cancelTimer(EXPIRY_TIMER_ID)
  const accounts = { from: bountyEscrowAccounts(bountyId), to: agentPromoCashAccounts(receiver) }
  transferPromoAndCash(ctx, context, { ...accounts, kind })
  ctx.inbox({
    receiver,
    receiverKind: 'agent',
    id: `bounty:${bountyId}`,
    event: { type: 'CREDIT', promo, cash },
  })
  const status: BountyStatus = value
  const end = { bountyId, status, reason: closedReason ?? status, claim, at: ctx.now }
  ctx.row('bounty_closures', toBountyClosureRow(end))
  return { promo, reward: addMicros(promo, cash) }
}

/** Adds the bounty to a rejection, and the score if the content was not good enough. */
function withBountyDetails(
  step: () => ActorSnapshot<'bounty'>,
  ctx: CommandContext,
  mismatch: Record<string, unknown> = {},
): void {
  const { closedReason } = ctx.snapshotOf('bounty', ctx.aggregateId).context
  try {
    step()
  } catch (error) {
    if (error instanceof ServiceError) {
      const { code, details } = error
      Object.assign(details, { bounty_id: ctx.aggregateId })
      if (code === 'bounty_mismatch') Object.assign(details, mismatch)
      if (code === 'bounty_ended')
        Object.assign(details, { closed_reason: closedReason ?? 'expired' })
    }
    throw error
  }
}

/** An account for each part of an amount. */
type PromoCashAccounts = Readonly<Record<keyof PromoCashAmounts, string>>
const agentPromoCashAccounts = (id: string): PromoCashAccounts => ({
  promo: agentPromoAccount(id),
  cash: agentCashAccount(id),
})
const bountyEscrowAccounts = (id: string): PromoCashAccounts => ({
  promo: bountyEscrowPromoAccount(id),
  cash: bountyEscrowAccount(id),
})

interface PromoCashTransfer {
  readonly from: PromoCashAccounts
  readonly to: PromoCashAccounts
  readonly kind: LedgerTransferKind & ('escrow' | 'bounty' | 'escrow_back')
  readonly promoAllowed?: boolean
}

function transferPromoAndCash(
  ctx: CommandContext,
  parts: PromoCashAmounts,
  { from, to, ...how }: PromoCashTransfer,
): void {
  for (const part of ['promo', 'cash'] as const) {
    const amount = parts[part]
    if (amount > ZERO_MICROS) ctx.transfer({ debit: from[part], credit: to[part], amount, ...how })
  }
}
