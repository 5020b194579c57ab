import {
  reserveDailyToolCallQuota,
  settleDailyToolCallQuota,
} from '../../actors/commands/daily-call-and-stored-reply-quotas.ts'
import { recordOwnershipOrMemoryReorganization } from '../../actors/commands/lifetime-entitlement-commands.ts'
import { createAggregateInSameCommit } from '../../actors/create-aggregate-in-same-commit.ts'
import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  addMicros,
  smallerOfTwoMicros,
  subtractMicros,
  toUsdc,
  ZERO_MICROS,
  type Micros,
} from '../../core/money.ts'
import { memoryListingSellerShare } from '../../domain/pricing.ts'
import {
  toMemoryListingRow,
  toMemoryListingPurchaseRow,
  toMemoryListingRatingRow,
  toMemoryListingWithdrawalRow,
  type ListedMemories,
  type NewMemoryListing,
} from '../../persistence/memory-marketplace/memory-marketplace-rows.ts'
import type { Spender } from '../agent-call-admission-request-types.ts'
import {
  agentCashAccount,
  agentPromoAccount,
  TREASURY_FEES_ACCOUNT,
  type PromoCashAmounts,
} from '../ledger-accounts.ts'
import { spendCreditsOrCash } from './spend-credits-reaching-other-agent.ts'

/** Commands that list, sell, rate and withdraw memories on the marketplace. */

/** Creates a listing, in the commit of its seller. */
const openListingCommand: AggregateCommand<NewMemoryListing, void> = {
  name: 'listing.open',
  kind: 'listing',
  creates: true,
  apply(ctx, { listingId, sellerId, name, price, acceptsPromo, memoryIds }) {
    const entries = memoryIds.length
    const terms = { listingId, sellerId, name, price, acceptsPromo, entries, at: ctx.now }
    ctx.create('listing', listingId, terms)
  },
  note: ({ sellerId, price }) => ({ sellerId, price }),
}

/** Offers memories of the agent for sale, as they are now. */
export const offerMemoriesForSaleCommand: AggregateCommand<ListedMemories, NewMemoryListing> = {
  name: 'listing.list',
  kind: 'agent',
  apply(ctx, listed) {
    const [sellerId, listingId] = [ctx.aggregateId, ctx.newId()]
    const quota = { most: LIMITS.listingsPerDay }
    reserveDailyToolCallQuota(ctx, { callId: listingId, tool: 'marketplace_list', quota })
    settleDailyToolCallQuota(ctx, listingId, 'KEEP')
    const listing = { ...listed, listingId, sellerId, createdAt: new Date(ctx.now) }
    createAggregateInSameCommit(ctx, listingId, openListingCommand, listing)
    ctx.row('marketplace_listings', toMemoryListingRow(listing))
    return listing
  },
  note: ({ price, memoryIds }) => ({ price, entries: memoryIds.length }),
}

/** What is bought; a listing never changes its terms. */
export type MemoryListingTerms = Pick<
  NewMemoryListing,
  'listingId' | 'sellerId' | 'name' | 'price' | 'acceptsPromo' | 'memoryIds'
>

export interface BuyMemoryListingInput {
  readonly listing: MemoryListingTerms
  readonly spender: Spender
  /** Whether promotional credits may reach another agent (decision 152). */
  readonly promoTransferable: boolean
}

export interface BoughtMemoryListing {
  readonly listing: MemoryListingTerms
  readonly purchaseId: string
  /** Ids of the copies, in the order of the listing. */
  readonly memoryIds: readonly string[]
  /** The part of the price that promotional credits paid. */
  readonly promo: Micros
  readonly balance: Micros
  readonly at: number
}

/**
 * Buys a listing once: the price, the copies and the messages to the seller are one commit. Every
 * limit of the spender counts the price.
 */
export const buyMemoryListingCommand: AggregateCommand<BuyMemoryListingInput, BoughtMemoryListing> =
  {
    name: 'listing.buy',
    kind: 'agent',
    apply(ctx, { listing, spender, promoTransferable }) {
      const { listingId, sellerId, price } = listing
      const buyerId = ctx.aggregateId
      if (sellerId === buyerId) throw new ServiceError('own_listing', { listing_id: listingId })
      ownOnce(ctx, `listing:${listingId}`, 'already_owned', listingId)
      const purchaseId = ctx.newId()
      const promoAllowed = listing.acceptsPromo && promoTransferable
      const paid = spendCreditsOrCash(ctx, spender, {
        id: purchaseId,
        permission: 'purchase',
        amount: price,
        from: promoAllowed ? 'any' : 'cash',
        cashOnly: 'This listing takes deposited credits only.',
      })
      paySeller(ctx, purchaseId, listing, { paid, promoAllowed })
      const memoryIds = listing.memoryIds.map(() => ctx.newId())
      const at = ctx.now
      ctx.row(
        'marketplace_purchases',
        toMemoryListingPurchaseRow({ purchaseId, listingId, buyerId, price, memoryIds, at }),
      )
      const { promo, cash } = ctx.snapshotOf('agent', buyerId).context
      const balance = addMicros(promo, cash)
      return { listing, purchaseId, memoryIds, promo: paid.promo, balance, at }
    },
    note: ({ listing: { listingId, price } }) => ({ listingId, price }),
  }

/** Counts something once per agent, on any number of nodes. */
function ownOnce(
  ctx: CommandContext,
  name: string,
  code: 'already_owned' | 'already_rated',
  listingId: string,
): void {
  const agentId = ctx.aggregateId
  if (owns(ctx, name)) throw new ServiceError(code, { agent_id: agentId, listing_id: listingId })
  recordOwnershipOrMemoryReorganization(ctx, { type: 'OWN', names: [name] })
}

const owns = (ctx: CommandContext, name: string): boolean =>
  ctx.has('tally', ctx.aggregateId) &&
  ctx.snapshotOf('tally', ctx.aggregateId).context.owned.includes(name)

/**
 * Splits the price: 82 % rounded down to the seller, the rest to the treasury. The seller gets the
 * cash before the promotional credits, which stay promotional.
 */
function paySeller(
  ctx: CommandContext,
  purchaseId: string,
  { listingId, sellerId, price }: BuyMemoryListingInput['listing'],
  { paid, promoAllowed }: { paid: PromoCashAmounts; promoAllowed: boolean },
): void {
  const buyerId = ctx.aggregateId
  const share = memoryListingSellerShare(price)
  const cash = smallerOfTwoMicros(paid.cash, share)
  const got = { cash, promo: subtractMicros(share, cash) }
  const accounts = {
    cash: [agentCashAccount(buyerId), agentCashAccount(sellerId)],
    promo: [agentPromoAccount(buyerId), agentPromoAccount(sellerId)],
  } as const
  const about = { callId: purchaseId, memo: listingId }
  for (const part of ['cash', 'promo'] as const) {
    const [debit, credit] = accounts[part]
    const fee = subtractMicros(paid[part], got[part])
    if (got[part] > ZERO_MICROS)
      ctx.transfer({ ...about, debit, credit, amount: got[part], kind: 'sale', promoAllowed })
    if (fee > ZERO_MICROS)
      ctx.transfer({
        ...about,
        debit,
        credit: TREASURY_FEES_ACCOUNT,
        amount: fee,
        kind: 'sale_fee',
      })
  }
  const id = `sale:${purchaseId}`
  ctx.inbox({ receiver: sellerId, receiverKind: 'agent', id, event: { type: 'CREDIT', ...got } })
  ctx.inbox({ receiver: listingId, receiverKind: 'listing', id, event: { type: 'SOLD', ...got } })
  const data = { source: 'sale', amount_usdc: toUsdc(share), listing_id: listingId }
  ctx.event({ type: 'topup', to: sellerId, data })
}

export interface RateMemoryListingInput {
  readonly listingId: string
  readonly stars: number
}

/** The rating of a buyer, once. */
export const rateMemoryListingCommand: AggregateCommand<RateMemoryListingInput, { at: number }> = {
  name: 'listing.rate',
  kind: 'agent',
  apply(ctx, { listingId, stars }) {
    const [buyerId, at] = [ctx.aggregateId, ctx.now]
    if (!owns(ctx, `listing:${listingId}`))
      throw new ServiceError('not_bought', { listing_id: listingId })
    ownOnce(ctx, `rating:${listingId}`, 'already_rated', listingId)
    ctx.row('marketplace_ratings', toMemoryListingRatingRow({ listingId, buyerId, stars, at }))
    // The seller can read the history of the listing, so the message does not name the buyer.
    const [id, event] = [`rating:${ctx.newId()}`, { type: 'RATED', stars }]
    ctx.inbox({ receiver: listingId, receiverKind: 'listing', id, event })
    return { at }
  },
  note: ({ listingId, stars }) => ({ listingId, stars }),
}

/** Withdraws a listing; repeating it changes nothing. */
export const withdrawMemoryListingCommand: AggregateCommand<{ agentId: string }, { at: number }> = {
  name: 'listing.withdraw',
  kind: 'listing',
  apply(ctx, { agentId }) {
    const listingId = ctx.aggregateId
    const before = ctx.snapshotOf('listing', listingId)
    ctx.send('listing', listingId, { type: 'WITHDRAW', agentId, at: ctx.now })
    if (before.value !== 'open') return { at: before.context.withdrawnAt ?? ctx.now }
    ctx.row('marketplace_withdrawals', toMemoryListingWithdrawalRow(listingId, ctx.now))
    return { at: ctx.now }
  },
}
