import { assign } from 'xstate'
import { addMicros, ZERO_MICROS, type Micros } from '../core/money.ts'
import { createBaseMachineSetup, type EventOfType } from './machine-setup.ts'

/** A listing of the marketplace: memories for sale. */

export interface MemoryListingMachineInput {
  readonly listingId: string
  readonly sellerId: string
  readonly name: string
  readonly price: Micros
  readonly entries: number
  /** Whether promotional credits may pay it. */
  readonly acceptsPromo: boolean
  readonly at: number
}

export interface MemoryListingMachineContext extends Omit<MemoryListingMachineInput, 'at'> {
  readonly openedAt: number
  readonly withdrawnAt: number | null
  /** Its sales, and what they brought the seller. Buyers are not named. */
  readonly sold: number
  readonly promo: Micros
  readonly cash: Micros
  /** Ratings of buyers, and the sum of their stars. */
  readonly ratings: number
  readonly stars: number
}

export type MemoryListingMachineEvent =
  | { readonly type: 'SOLD'; readonly promo: Micros; readonly cash: Micros }
  | { readonly type: 'RATED'; readonly stars: number }
  | { readonly type: 'WITHDRAW'; readonly agentId: string; readonly at: number }

const listingSetup = createBaseMachineSetup<
  MemoryListingMachineContext,
  MemoryListingMachineEvent,
  MemoryListingMachineInput
>().extend({
  guards: {
    isSeller: ({ context }, event: EventOfType<MemoryListingMachineEvent, 'WITHDRAW'>) =>
      event.agentId === context.sellerId,
  },
  actions: {
    countSale: assign(({ context }, event: EventOfType<MemoryListingMachineEvent, 'SOLD'>) => ({
      sold: context.sold + 1,
      promo: addMicros(context.promo, event.promo),
      cash: addMicros(context.cash, event.cash),
    })),
    countRating: assign(({ context }, event: EventOfType<MemoryListingMachineEvent, 'RATED'>) => ({
      ratings: context.ratings + 1,
      stars: context.stars + event.stars,
    })),
    withdraw: assign((_, event: EventOfType<MemoryListingMachineEvent, 'WITHDRAW'>) => ({
      withdrawnAt: event.at,
    })),
  },
})

/**
 * Memories for sale, as they were when they were listed. Each purchase is decided in the buyer's
 * aggregate and arrives as a message: also after `withdrawn`, if it began before. The seller may
 * withdraw the listing once; buyers keep their copies.
 */
export const memoryListingMachine = listingSetup.createMachine({
  id: 'listing',
  context: ({ input: { at, ...listed } }) => ({
    ...listed,
    openedAt: at,
    withdrawnAt: null,
    sold: 0,
    promo: ZERO_MICROS,
    cash: ZERO_MICROS,
    ratings: 0,
    stars: 0,
  }),
  initial: 'open',
  on: {
    SOLD: { actions: { type: 'countSale', params: ({ event }) => event } },
    RATED: { actions: { type: 'countRating', params: ({ event }) => event } },
    '*': { actions: { type: 'reject', params: { code: 'internal' } } },
  },
  states: {
    open: {
      on: {
        WITHDRAW: [
          {
            guard: { type: 'isSeller', params: ({ event }) => event },
            target: 'withdrawn',
            actions: { type: 'withdraw', params: ({ event }) => event },
          },
          { actions: { type: 'reject', params: { code: 'listing_not_yours' } } },
        ],
      },
    },
    withdrawn: {
      tags: 'ended',
      on: {
        WITHDRAW: [
          { guard: { type: 'isSeller', params: ({ event }) => event } },
          { actions: { type: 'reject', params: { code: 'listing_not_yours' } } },
        ],
      },
    },
  },
})
