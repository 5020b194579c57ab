import type { ActorSystem, AggregateCommandOptions } from '../actors/aggregate-command-types.ts'
import type { Clock } from '../core/clock.ts'
import { invalidInputError, ServiceError } from '../core/errors.ts'
import { isUuid } from '../core/ids-and-api-keys.ts'
import { LIMITS } from '../core/limits.ts'
import type { DailyByteCounter } from '../persistence/daily-stored-byte-quotas.ts'
import type { NewMemoryListing } from '../persistence/memory-marketplace/memory-marketplace-rows.ts'
import type {
  MemoryListingRecord,
  MemoryMarketplaceStore,
  MemoryForSale,
} from '../persistence/memory-marketplace/memory-marketplace-store.ts'
import {
  buyMemoryListingCommand,
  offerMemoriesForSaleCommand,
  rateMemoryListingCommand,
  withdrawMemoryListingCommand,
  type BoughtMemoryListing,
  type BuyMemoryListingInput,
} from './commands/memory-listing-commands.ts'

/** The marketplace: agents sell copies of their memories to each other. */

export interface MemoryMarketplaceServiceDeps {
  readonly actors: ActorSystem
  readonly store: MemoryMarketplaceStore
  readonly clock: Clock
  /** Whether promotional credits may reach another agent. */
  readonly promoTransferable: boolean
  readonly keptBytes: Pick<DailyByteCounter, 'take' | 'giveBack'>
}

/** The terms of a new listing. */
export type NewMemoryListingTerms = Pick<
  NewMemoryListing,
  'name' | 'description' | 'price' | 'acceptsPromo' | 'memoryIds'
>

const SHOWN_PREVIEWS = 3
const PREVIEW_WORDS = 8
const PREVIEW_CHARS = 80
const SHOWN_TAGS = 20

/** Creates the service that lists, sells, rates and withdraws memories. */
export function createMemoryMarketplaceService(deps: MemoryMarketplaceServiceDeps) {
  const { actors, store, clock, promoTransferable, keptBytes } = deps

  /** Rejects with `listing_not_found`, also if `id` is malformed. */
  async function find(id: string): Promise<MemoryListingRecord> {
    const found = isUuid(id) ? await store.find(id.toLowerCase()) : null
    if (found === null) throw new ServiceError('listing_not_found', { listing_id: id })
    return found
  }

  return {
    store,
    find,

    /**
     * Lists live memories of the seller; rejects those that it has bought or received. The copies count as kept bytes
     * (decision 486): the request has only ids.
     */
    async list(
      sellerId: string,
      terms: NewMemoryListingTerms,
      options: AggregateCommandOptions,
    ): Promise<NewMemoryListing> {
      const memoryIds = terms.memoryIds.map((id) => id.toLowerCase())
      if (new Set(memoryIds).size < memoryIds.length)
        throw invalidInputError('/entry_ids', 'must name each memory once')
      const known = await store.memoriesForSale(sellerId, memoryIds, new Date(clock.now()))
      const byId = new Map(known.map((memory) => [memory.id, memory]))
      const memories = memoryIds.map((id) => requireSellable(id, byId.get(id)))
      const listed = { ...terms, memoryIds, ...describeMemories(memories) }
      const bytes = memories.reduce((sum, memory) => sum + copiedBytesOf(memory), 0)
      await keptBytes.take(sellerId, bytes)
      try {
        return await actors.ask(sellerId, offerMemoriesForSaleCommand, listed, options)
      } catch (error) {
        keptBytes.giveBack(sellerId, bytes)
        throw error
      }
    },

    /**
     * Buys an open listing. It is read from the database, not from a cache: nobody buys a listing
     * whose withdrawal was answered before.
     */
    async buy(
      buyerId: string,
      listingId: string,
      spender: BuyMemoryListingInput['spender'],
      options: AggregateCommandOptions,
    ): Promise<BoughtMemoryListing> {
      const listing = await find(listingId)
      if (listing.withdrawnAt !== null)
        throw new ServiceError('listing_withdrawn', { listing_id: listing.listingId })
      const wanted = { listing, spender, promoTransferable }
      return actors.ask(buyerId, buyMemoryListingCommand, wanted, options)
    },

    /** Rates a bought listing, also after its withdrawal. */
    async rate(buyerId: string, id: string, stars: number, options: AggregateCommandOptions) {
      const { listingId } = await find(id)
      return actors.ask(buyerId, rateMemoryListingCommand, { listingId, stars }, options)
    },

    /** Ends a listing; buyers keep their copies. */
    withdraw: (
      { listingId }: MemoryListingRecord,
      agentId: string,
      options: AggregateCommandOptions,
    ) => actors.ask(listingId, withdrawMemoryListingCommand, { agentId }, options),
  }
}
export type MemoryMarketplaceService = ReturnType<typeof createMemoryMarketplaceService>

function requireSellable(id: string, memory: MemoryForSale | undefined): MemoryForSale {
  if (memory === undefined) throw new ServiceError('memory_not_found', { memory_id: id })
  if (memory.foreign !== null)
    throw new ServiceError('not_for_sale', { memory_id: id, reason: memory.foreign })
  return memory
}

/** Of the copy that a listing keeps: its text, and a row with its vector. */
const copiedBytesOf = ({ content, tags }: MemoryForSale): number =>
  LIMITS.keptBytesPerWrite + Buffer.byteLength(content) + Buffer.byteLength(tags.join())

/** What anybody may see of the memories before they buy them. */
function describeMemories(memories: readonly MemoryForSale[]) {
  const times = new Map<string, number>()
  for (const tag of memories.flatMap(({ tags }) => tags)) times.set(tag, (times.get(tag) ?? 0) + 1)
  const tags = [...times].sort((a, b) => b[1] - a[1]).map(([tag]) => tag)
  return {
    types: [...new Set(memories.map(({ type }) => type))].sort(),
    tags: tags.slice(0, SHOWN_TAGS),
    previews: memories.slice(0, SHOWN_PREVIEWS).map(({ content }) => firstWords(content)),
  }
}

/** The beginning of a text: whole words, of at most half of it. */
function firstWords(content: string): string {
  const words = content.trim().split(/\s+/)
  const most = Math.min(PREVIEW_CHARS, Math.floor(words.join(' ').length / 2))
  let shown = ''
  for (const word of words.slice(0, PREVIEW_WORDS)) {
    const longer = shown === '' ? word : `${shown} ${word}`
    if (longer.length > most) break
    shown = longer
  }
  return `${shown} …`.trim()
}
