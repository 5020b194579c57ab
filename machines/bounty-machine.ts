import { assertEvent, assign, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import type { Micros } from '../core/money.ts'

/** A bounty: a reward in escrow for the first matching content. */

export interface BountyInput {
  readonly bountyId: string
  readonly posterId: string
  /** The reward as it was taken from the poster's balance. */
  readonly promo: Micros
  readonly cash: Micros
  readonly minQuality: number
  readonly at: number
  readonly expiresAt: number
}

export interface BountyContext {
  readonly bountyId: string
  readonly posterId: string
  /** The escrow while the bounty is open; then the amount paid or returned. */
  readonly promo: Micros
  readonly cash: Micros
  readonly minQuality: number
  readonly openedAt: number
  readonly expiresAt: number
  readonly claimerId: string | null
  readonly quality: number | null
  readonly closedAt: number | null
  readonly closedReason: 'claimed' | 'cancelled' | 'expired' | null
}

export type BountyEvent =
  | {
      readonly type: 'CLAIM'
      readonly agentId: string
      /** Number of required keywords that the content lacks. */
      readonly missing: number
      readonly quality: number
      readonly at: number
    }
  | { readonly type: 'CANCEL'; readonly agentId: string; readonly at: number }
  | { readonly type: 'EXPIRE'; readonly at: number }

/**
 * A reward in escrow for the first matching content. It leaves `open` once: paid to the claimer, or
 * returned to the poster in full after expiry or cancellation (decision 36).
 */
export const bountyMachine = setup({
  types: {} as { context: BountyContext; events: BountyEvent; input: BountyInput },
  guards: {
    isPoster: ({ context, event }) => {
      assertEvent(event, ['CLAIM', 'CANCEL'])
      return event.agentId === context.posterId
    },
    wasCancelled: ({ context, event }) => {
      assertEvent(event, 'CANCEL')
      return event.agentId === context.posterId && context.closedReason === 'cancelled'
    },
    isStranger: ({ context, event }) => {
      assertEvent(event, ['CLAIM', 'CANCEL'])
      return event.agentId !== context.posterId
    },
    // The timer may be late: the time of the request decides.
    hasPassed: ({ context, event }) => {
      assertEvent(event, ['CLAIM', 'EXPIRE'])
      return event.at >= context.expiresAt
    },
    matches: ({ context, event }) => {
      assertEvent(event, 'CLAIM')
      return event.missing === 0 && event.quality >= context.minQuality
    },
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: the timer fired too early or too late. */
    accept: () => {},
    claim: assign(({ event }) => {
      assertEvent(event, 'CLAIM')
      const { agentId, quality, at } = event
      return { claimerId: agentId, quality, closedAt: at, closedReason: 'claimed' as const }
    }),
    cancel: assign(({ event }) => {
      assertEvent(event, 'CANCEL')
      return { closedAt: event.at, closedReason: 'cancelled' as const }
    }),
    expire: assign(({ event }) => {
      assertEvent(event, 'EXPIRE')
      return { closedAt: event.at, closedReason: 'expired' as const }
    }),
  },
}).createMachine({
  id: 'bounty',
  context: ({ input: { at, ...posted } }) => ({
    ...posted,
    openedAt: at,
    claimerId: null,
    quality: null,
    closedAt: null,
    closedReason: null,
  }),
  initial: 'open',
  on: {
    CLAIM: { guard: 'isPoster', actions: { type: 'refuse', params: { code: 'own_bounty' } } },
    CANCEL: {
      guard: 'isStranger',
      actions: { type: 'refuse', params: { code: 'bounty_not_yours' } },
    },
    EXPIRE: { actions: 'accept' },
    '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
  },
  states: {
    open: {
      on: {
        CLAIM: [
          { guard: 'isPoster', actions: { type: 'refuse', params: { code: 'own_bounty' } } },
          { guard: 'hasPassed', actions: { type: 'refuse', params: { code: 'bounty_ended' } } },
          { guard: 'matches', target: 'claimed', actions: 'claim' },
          { actions: { type: 'refuse', params: { code: 'bounty_mismatch' } } },
        ],
        CANCEL: { guard: 'isPoster', target: 'expired', actions: 'cancel' },
        EXPIRE: { guard: 'hasPassed', target: 'expired', actions: 'expire' },
      },
    },
    claimed: {
      on: {
        CLAIM: {
          guard: 'isStranger',
          actions: { type: 'refuse', params: { code: 'already_claimed' } },
        },
        CANCEL: {
          guard: 'isPoster',
          actions: { type: 'refuse', params: { code: 'already_claimed' } },
        },
      },
    },
    expired: {
      on: {
        CLAIM: {
          guard: 'isStranger',
          actions: { type: 'refuse', params: { code: 'bounty_ended' } },
        },
        CANCEL: [
          { guard: 'wasCancelled', actions: 'accept' },
          { guard: 'isPoster', actions: { type: 'refuse', params: { code: 'bounty_ended' } } },
        ],
      },
    },
  },
})
