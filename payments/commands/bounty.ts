import { HOUR } from '../../core/clock.ts'
import { ServiceError, type ErrorCode } from '../../core/errors.ts'
import { add, least, subtract, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import type { TransferKind } from '../../core/rows.ts'
import { bear } from '../../actors/birth.ts'
import type { Command, Turn } from '../../actors/command.ts'
import type { SnapshotOf } from '../../actors/registry.ts'
import {
  stagedBounty,
  stagedEnd,
  type Bounty,
  type BountyStatus,
  type PostedBounty,
} from '../../persistence/bounties.ts'
import type { Spender } from '../admission.ts'
import type { Appraisal } from '../appraisal.ts'
import { bountyOf, bountyPromoOf, cashOf, promoOf, type Purse } from '../ledger.ts'
import { takeOutlay, type Outlay } from './outlay.ts'

/** What its poster says of a bounty. */
export interface NewBounty {
  readonly title: string
  readonly description: string
  readonly domain: string
  readonly requiredKeywords: readonly string[]
  readonly minQuality: number
  readonly reward: Micros
  readonly ttlHours: number
}

/** A new bounty, and who posts it. */
export interface Posting extends NewBounty {
  readonly spender: Spender
}

/** What its poster may use for it. */
export interface Means {
  /** Whether promotional credits may become the reward of another agent (decisions 83 and 152). */
  readonly promoTransferable: boolean
}

export interface Posted {
  readonly bounty: Bounty
  /** What its poster has left. */
  readonly balance: Micros
}

/** Its timer. */
const EXPIRY = 'expiry'
const OPEN = { status: 'open', closedReason: null, closedAt: null, claimedBy: null } as const

/** The birth of a bounty, in the commit of its poster. */
const bountyOpen: Command<PostedBounty, void> = {
  name: 'bounty.open',
  kind: 'bounty',
  creates: true,
  apply(turn, posted) {
    const { bountyId, posterId, promo, minQuality } = posted
    const [cash, expiresAt] = [subtract(posted.reward, promo), posted.expiresAt.getTime()]
    const input = { bountyId, posterId, promo, cash, minQuality, at: turn.now, expiresAt }
    turn.create('bounty', bountyId, input)
    turn.timer({ id: EXPIRY, dueAt: expiresAt, command: bountyExpire.name, input: {} })
    turn.row('bounties', stagedBounty(posted))
  },
  note: ({ posterId }) => ({ posterId }),
}

/**
 * Takes the reward from its poster into an escrow: cash, or promotional credits first where those may
 * reach other agents (decision 83). Both parts stay apart: what was promotional is paid, or returned,
 * as promotional. The limits of its spender count it when it is posted, and get nothing back when it
 * returns. Rejects with `payment_required` where the poster has too little of what counts.
 */
export const bountyPost: Command<Posting & Means, Posted> = {
  name: 'bounty.post',
  kind: 'agent',
  apply(turn, { ttlHours, promoTransferable, spender, ...wanted }) {
    const [posterId, bountyId] = [turn.aggregateId, turn.id()]
    const outlay = { id: bountyId, permission: 'bounty', amount: wanted.reward } as const
    const parts = takeReward(turn, spender, outlay, promoTransferable)
    const createdAt = new Date(turn.now)
    const expiresAt = new Date(turn.now + ttlHours * HOUR)
    const posted = { ...wanted, bountyId, posterId, promo: parts.promo, createdAt, expiresAt }
    const accounts = { from: agentAccounts(posterId), to: escrowAccounts(bountyId) }
    move(turn, parts, { ...accounts, kind: 'escrow', promoAllowed: promoTransferable })
    bear(turn, bountyId, bountyOpen, posted)
    const { promo, cash } = turn.peek('agent', posterId).context
    return { bounty: { ...posted, ...OPEN }, balance: add(promo, cash) }
  },
  note: ({ reward }) => ({ reward }),
}

/** What an agent hands in for a bounty, and what it is worth. */
export interface Claim {
  readonly agentId: string
  readonly content: string
  readonly appraisal: Appraisal
}

export interface PaidBounty {
  readonly reward: Micros
  readonly promo: Micros
  readonly quality: number
  readonly at: number
}

/** Pays the escrow to the first who brings what was asked for. */
export const bountyClaim: Command<Claim, PaidBounty> = {
  name: 'bounty.claim',
  kind: 'bounty',
  apply(turn, claim) {
    const { agentId, content, appraisal } = claim
    const { posterId, minQuality } = turn.peek('bounty', turn.aggregateId).context
    const { quality, missing } = appraisal
    const event = {
      type: 'CLAIM',
      agentId,
      quality,
      missing: missing.length,
      at: turn.now,
    } as const
    explained(() => turn.step('bounty', turn.aggregateId, event), turn, {
      quality_score: quality,
      min_quality_score: minQuality,
      missing_keywords: missing,
      points: { substance: appraisal.substance, variety: appraisal.variety },
    })
    const { promo, reward } = close(turn, agentId, 'bounty', { agentId, content, quality })
    const about = {
      bounty_id: turn.aggregateId,
      amount_usdc: toUsdc(reward),
      quality_score: quality,
    }
    const paid = { status: 'paid', ...about, promo_usdc: toUsdc(promo), posted_by: posterId }
    turn.event({ type: 'bounty_received', to: agentId, data: paid })
    const told = { status: 'claimed', ...about, claimed_by: agentId }
    turn.event({ type: 'bounty_received', to: posterId, data: told })
    return { reward, promo, quality, at: turn.now }
  },
  note: ({ agentId }) => ({ agentId }),
}

/** Its poster takes an open bounty back, and the whole escrow with it. */
export const bountyCancel: Command<{ agentId: string }, { at: number }> = {
  name: 'bounty.cancel',
  kind: 'bounty',
  apply(turn, { agentId }) {
    const event = { type: 'CANCEL', agentId, at: turn.now } as const
    const before = turn.peek('bounty', turn.aggregateId)
    explained(() => turn.step('bounty', turn.aggregateId, event), turn)
    // Said a second time it changes nothing: the escrow went back with the first.
    if (before.value !== 'open') return { at: before.context.closedAt ?? turn.now }
    close(turn, agentId, 'escrow_back', null)
    return { at: turn.now }
  },
  note: ({ agentId }) => ({ agentId }),
}

/** The timer of an open bounty: nobody has claimed it, the whole escrow goes back. */
export const bountyExpire: Command<Record<string, never>, void> = {
  name: 'bounty.expire',
  kind: 'bounty',
  apply(turn) {
    const before = turn.peek('bounty', turn.aggregateId)
    const after = turn.step('bounty', turn.aggregateId, { type: 'EXPIRE', at: turn.now })
    if (before.value !== 'open') return turn.cancelTimer(EXPIRY)
    // By this clock it is too early: the row stays.
    if (after.value !== 'open') close(turn, after.context.posterId, 'escrow_back', null)
  },
}

/** Empties the escrow into the inbox of whoever gets it, and says so where lists look. */
function close(
  turn: Turn,
  receiver: string,
  kind: TransferKind & ('bounty' | 'escrow_back'),
  claim: { agentId: string; content: string; quality: number } | null,
) {
  const bountyId = turn.aggregateId
  const { value, context } = turn.peek('bounty', bountyId)
  const { promo, cash, closedReason } = context
  turn.cancelTimer(EXPIRY)
  const accounts = { from: escrowAccounts(bountyId), to: agentAccounts(receiver) }
  move(turn, context, { ...accounts, kind })
  turn.inbox({
    receiver,
    receiverKind: 'agent',
    id: `bounty:${bountyId}`,
    event: { type: 'CREDIT', promo, cash },
  })
  const status: BountyStatus = value
  const end = { bountyId, status, reason: closedReason ?? status, claim, at: turn.now }
  turn.row('bounty_ends', stagedEnd(end))
  return { promo, reward: add(promo, cash) }
}

/** A refusal names the bounty, and why its content was not enough where that is the reason. */
function explained(
  step: () => SnapshotOf<'bounty'>,
  turn: Turn,
  mismatch: Record<string, unknown> = {},
): void {
  const { closedReason } = turn.peek('bounty', turn.aggregateId).context
  try {
    step()
  } catch (error) {
    if (error instanceof ServiceError) {
      const { code, details } = error
      Object.assign(details, { bounty_id: turn.aggregateId })
      if (code === 'bounty_mismatch') Object.assign(details, mismatch)
      if (code === 'bounty_ended')
        Object.assign(details, { closed_reason: closedReason ?? 'expired' })
    }
    throw error
  }
}

/** An account for each part of an amount. */
type Accounts = Readonly<Record<keyof Purse, string>>
const agentAccounts = (id: string): Accounts => ({ promo: promoOf(id), cash: cashOf(id) })
const escrowAccounts = (id: string): Accounts => ({ promo: bountyPromoOf(id), cash: bountyOf(id) })

interface Move {
  readonly from: Accounts
  readonly to: Accounts
  readonly kind: TransferKind & ('escrow' | 'bounty' | 'escrow_back')
  readonly promoAllowed?: boolean
}

function move(turn: Turn, parts: Purse, { from, to, ...how }: Move): void {
  for (const part of ['promo', 'cash'] as const) {
    const amount = parts[part]
    if (amount > ZERO) turn.transfer({ debit: from[part], credit: to[part], amount, ...how })
  }
}

/** More money helps where promotional credits do not count: so a 402, which says what is missing. */
function takeReward(
  turn: Turn,
  spender: Spender,
  outlay: Omit<Outlay, 'from'>,
  promoTransferable: boolean,
): Purse {
  const { promo, cash } = turn.peek('agent', turn.aggregateId).context
  const reserved = subtract(turn.soft.total, least(turn.soft.total, promo))
  const usable = subtract(cash, least(cash, reserved))
  try {
    return takeOutlay(turn, spender, { ...outlay, from: promoTransferable ? 'any' : 'cash' })
  } catch (error) {
    if (promoTransferable || !(error instanceof ServiceError) || !SHORT.has(error.code)) throw error
    throw new ServiceError('payment_required', {
      ...error.details,
      limit_source: 'balance',
      needed_usdc: toUsdc(outlay.amount),
      detail:
        'A bounty takes deposited credits here: promotional credits buy tools and cannot reach another agent.',
      promo_not_transferable: true,
      cash_usdc: toUsdc(cash),
      promo_usdc: toUsdc(promo),
      missing_usdc: toUsdc(subtract(outlay.amount, least(usable, outlay.amount))),
    })
  }
}

/** What says that the credits are too few; other refusals are the limits'. */
const SHORT: ReadonlySet<ErrorCode> = new Set(['payment_required', 'promo_not_transferable'])
