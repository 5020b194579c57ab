import { assign } from 'xstate'
import type { Micros } from '../core/money.ts'
import { createBaseMachineSetup, type EventOfType } from './machine-setup.ts'

/** A bounty: a reward in escrow for the first matching content. */

export interface BountyMachineInput {
  readonly bountyId: string
  readonly posterId: string
  /** The reward as it was taken from the poster's balance. */
  readonly promo: Micros
  readonly cash: Micros
  readonly minQuality: number
  readonly at: number
  readonly expiresAt: number
}

export interface BountyMachineContext {
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

export type BountyMachineEvent =
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

const bountySetup = createBaseMachineSetup<
  BountyMachineContext,
  BountyMachineEvent,
  BountyMachineInput
>().extend({
  guards: {
    isPoster: ({ context }, event: EventOfType<BountyMachineEvent, 'CLAIM' | 'CANCEL'>) =>
      event.agentId === context.posterId,
    wasCancelled: ({ context }, event: EventOfType<BountyMachineEvent, 'CANCEL'>) =>
      event.agentId === context.posterId && context.closedReason === 'cancelled',
    isStranger: ({ context }, event: EventOfType<BountyMachineEvent, 'CLAIM' | 'CANCEL'>) =>
      event.agentId !== context.posterId,
    // The timer may be late: the time of the request decides.
    hasPassed: ({ context }, event: EventOfType<BountyMachineEvent, 'CLAIM' | 'EXPIRE'>) =>
      event.at >= context.expiresAt,
    matches: ({ context }, event: EventOfType<BountyMachineEvent, 'CLAIM'>) =>
      event.missing === 0 && event.quality >= context.minQuality,
  },
  actions: {
    claim: assign((_, event: EventOfType<BountyMachineEvent, 'CLAIM'>) => {
      const { agentId, quality, at } = event
      return { claimerId: agentId, quality, closedAt: at, closedReason: 'claimed' as const }
    }),
    cancel: assign((_, event: EventOfType<BountyMachineEvent, 'CANCEL'>) => ({
      closedAt: event.at,
      closedReason: 'cancelled' as const,
    })),
    expire: assign((_, event: EventOfType<BountyMachineEvent, 'EXPIRE'>) => ({
      closedAt: event.at,
      closedReason: 'expired' as const,
    })),
  },
})

/**
 * A reward in escrow for the first matching content. It leaves `open` once: paid to the claimer, or
 * returned to the poster in full after expiry or cancellation (decision 36).
 */
export const bountyMachine = bountySetup.createMachine({
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
    CLAIM: {
      guard: { type: 'isPoster', params: ({ event }) => event },
      actions: { type: 'reject', params: { code: 'own_bounty' } },
    },
    CANCEL: {
      guard: { type: 'isStranger', params: ({ event }) => event },
      actions: { type: 'reject', params: { code: 'bounty_not_yours' } },
    },
    EXPIRE: {},
    '*': { actions: { type: 'reject', params: { code: 'internal' } } },
  },
  states: {
    open: {
      on: {
        CLAIM: [
          {
            guard: { type: 'isPoster', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'own_bounty' } },
          },
          {
            guard: { type: 'hasPassed', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'bounty_ended' } },
          },
          {
            guard: { type: 'matches', params: ({ event }) => event },
            target: 'claimed',
            actions: { type: 'claim', params: ({ event }) => event },
          },
          { actions: { type: 'reject', params: { code: 'bounty_mismatch' } } },
        ],
        CANCEL: {
          guard: { type: 'isPoster', params: ({ event }) => event },
          target: 'expired',
          actions: { type: 'cancel', params: ({ event }) => event },
        },
        EXPIRE: {
          guard: { type: 'hasPassed', params: ({ event }) => event },
          target: 'expired',
          actions: { type: 'expire', params: ({ event }) => event },
        },
      },
    },
    claimed: {
      tags: 'ended',
      on: {
        CLAIM: {
          guard: { type: 'isStranger', params: ({ event }) => event },
          actions: { type: 'reject', params: { code: 'already_claimed' } },
        },
        CANCEL: {
          guard: { type: 'isPoster', params: ({ event }) => event },
          actions: { type: 'reject', params: { code: 'already_claimed' } },
        },
      },
    },
    expired: {
      tags: 'ended',
      on: {
        CLAIM: {
          guard: { type: 'isStranger', params: ({ event }) => event },
          actions: { type: 'reject', params: { code: 'bounty_ended' } },
        },
        CANCEL: [
          {
            guard: { type: 'wasCancelled', params: ({ event }) => event },
          },
          {
            guard: { type: 'isPoster', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'bounty_ended' } },
          },
        ],
      },
    },
  },
})
