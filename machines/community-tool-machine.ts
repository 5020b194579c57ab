import { assign } from 'xstate'
import { SECOND } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { Micros } from '../core/money.ts'
import {
  COMMUNITY_TOOL_QUALITY_THRESHOLDS,
  type CommunityToolVerificationRequest,
  type MeasuredToolQuality,
} from '../domain/community-tool-record.ts'
import { createBaseMachineSetup, type EventOfType } from './machine-setup.ts'

/** A tool that an agent sells to others: from the proof of its endpoint to its retirement. */

export interface CommunityToolMachineInput {
  readonly toolId: string
  readonly slug: string
  readonly builderId: string
  readonly price: Micros
  readonly acceptsPromo: boolean
  readonly at: number
}

/** A price that applies from a later time on. */
interface AnnouncedPrice {
  readonly price: Micros
  readonly from: number
}

export interface CommunityToolMachineContext {
  readonly toolId: string
  readonly slug: string
  readonly builderId: string
  readonly price: Micros
  /** Announced by the builder; null if the price stays. */
  readonly nextPrice: AnnouncedPrice | null
  readonly acceptsPromo: boolean
  readonly review: CommunityToolVerificationRequest
  /** Why the operator refused the mark `verified`, in words for the builder. */
  readonly reviewReason: string | null
  /** Counts the signing secrets: a new one replaces the secret of the number before. */
  readonly secretNumber: number
  readonly registeredAt: number
  /** Calls before this time do not count for its quality: its endpoint was another one. */
  readonly measuredFrom: number
  /** The measured quality that suspended it. */
  readonly suspendedFor: Omit<MeasuredToolQuality, 'failingPayers'> | null
  readonly retiredAt: number | null
}

interface ByBuilder {
  readonly builderId: string
  readonly at: number
}

export type CommunityToolMachineEvent =
  /** Its endpoint has answered the challenge of its builder. */
  | { readonly type: 'PROVE'; readonly at: number }
  | ({
      readonly type: 'CHANGE'
      /** Null leaves it as it is. A higher one applies after its notice. */
      readonly price: Micros | null
      readonly noticeMs: number
      readonly acceptsPromo: boolean | null
      /** The operator has not seen what it says now. */
      readonly revised: boolean
    } & ByBuilder)
  | ({ readonly type: 'MEASURE'; readonly at: number } & MeasuredToolQuality)
  | ({ readonly type: 'SUBMIT' } & ByBuilder)
  | {
      readonly type: 'REVIEW'
      readonly accepted: boolean
      readonly reason: string | null
      readonly at: number
    }
  | ({ readonly type: 'ROTATE_SECRET' } & ByBuilder)
  | ({ readonly type: 'RETIRE' } & ByBuilder)

type BuilderEvent = EventOfType<
  CommunityToolMachineEvent,
  'CHANGE' | 'SUBMIT' | 'ROTATE_SECRET' | 'RETIRE'
>

/** The price of a call that starts at a time. */
export const communityToolPriceAt = (
  { price, nextPrice }: Pick<CommunityToolMachineContext, 'price' | 'nextPrice'>,
  at: number,
): Micros => (nextPrice !== null && at >= nextPrice.from ? nextPrice.price : price)

const toolSetup = createBaseMachineSetup<
  CommunityToolMachineContext,
  CommunityToolMachineEvent,
  CommunityToolMachineInput
>().extend({
  guards: {
    isOfAnother: ({ context }, event: BuilderEvent) => event.builderId !== context.builderId,
    isVerified: ({ context }) => context.review === 'verified',
    isAccepted: (_, event: EventOfType<CommunityToolMachineEvent, 'REVIEW'>) => event.accepted,
    /** Enough calls of enough payers succeeded. */
    isProvenInUse: (
      { context },
      { since, calls, successes, payers }: EventOfType<CommunityToolMachineEvent, 'MEASURE'>,
    ) =>
      since >= context.measuredFrom &&
      calls >= COMMUNITY_TOOL_QUALITY_THRESHOLDS.listedAfterCalls &&
      payers >= COMMUNITY_TOOL_QUALITY_THRESHOLDS.listedAfterPayers &&
      successes * 100 >= calls * COMMUNITY_TOOL_QUALITY_THRESHOLDS.listedAbovePercent,
    isFailing: (
      { context },
      { since, calls, successes, failingPayers }: EventOfType<CommunityToolMachineEvent, 'MEASURE'>,
    ) =>
      since >= context.measuredFrom &&
      calls >= COMMUNITY_TOOL_QUALITY_THRESHOLDS.judgedAfterCalls &&
      failingPayers >= COMMUNITY_TOOL_QUALITY_THRESHOLDS.suspendedFromPayers &&
      successes * 100 < calls * COMMUNITY_TOOL_QUALITY_THRESHOLDS.suspendedBelowPercent,
  },
  actions: {
    measureAnew: assign((_, event: EventOfType<CommunityToolMachineEvent, 'PROVE'>) => ({
      measuredFrom: event.at,
      suspendedFor: null,
    })),
    change: assign(({ context }, event: EventOfType<CommunityToolMachineEvent, 'CHANGE'>) => {
      const { acceptsPromo, revised } = event
      // Until a quote of the former price has ended, that price is not forgotten.
      const at = event.at - LIMITS.communityPriceHoldSeconds * SECOND
      const price = communityToolPriceAt(context, at)
      const due = context.nextPrice !== null && at >= context.nextPrice.from
      const settled = { price, nextPrice: due ? null : context.nextPrice }
      return {
        ...settled,
        ...toChangedPrice(settled, event),
        acceptsPromo: acceptsPromo ?? context.acceptsPromo,
        review: revised && context.review === 'verified' ? 'none' : context.review,
      }
    }),
    suspend: assign((_, event: EventOfType<CommunityToolMachineEvent, 'MEASURE'>) => {
      const { since, calls, successes, payers } = event
      return { suspendedFor: { since, calls, successes, payers } }
    }),
    submit: assign({ review: 'asked', reviewReason: null }),
    verify: assign({ review: 'verified', reviewReason: null }),
    refuse: assign((_, event: EventOfType<CommunityToolMachineEvent, 'REVIEW'>) => ({
      review: 'refused' as const,
      reviewReason: event.reason,
    })),
    rotateSecret: assign(({ context }) => ({ secretNumber: context.secretNumber + 1 })),
    retire: assign((_, event: EventOfType<CommunityToolMachineEvent, 'RETIRE'>) => ({
      retiredAt: event.at,
      nextPrice: null,
    })),
  },
})

/** A lower price applies at once; a higher one after the notice, and replaces an announced one. */
function toChangedPrice(
  { price: current }: Pick<CommunityToolMachineContext, 'price' | 'nextPrice'>,
  { price, noticeMs, at }: EventOfType<CommunityToolMachineEvent, 'CHANGE'>,
): Partial<Pick<CommunityToolMachineContext, 'price' | 'nextPrice'>> {
  if (price === null) return {}
  if (price <= current) return { price, nextPrice: null }
  return { nextPrice: { price, from: at + noticeMs } }
}

/**
 * A tool that an agent sells. Others can call it once its endpoint is proven; measured calls list or
 * suspend it. A new proof ends a suspension, and its quality is measured anew. `verified` is a mark
 * of the operator, beside the state.
 */
export const communityToolMachine = toolSetup.createMachine({
  id: 'tool',
  context: ({ input: { at, ...registered } }) => ({
    ...registered,
    nextPrice: null,
    review: 'none',
    reviewReason: null,
    secretNumber: 1,
    registeredAt: at,
    measuredFrom: at,
    suspendedFor: null,
    retiredAt: null,
  }),
  initial: 'pending',
  on: {
    PROVE: {
      target: '.probation',
      actions: { type: 'measureAnew', params: ({ event }) => event },
    },
    CHANGE: [
      {
        guard: { type: 'isOfAnother', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'tool_not_yours' } },
      },
      { actions: { type: 'change', params: ({ event }) => event } },
    ],
    SUBMIT: [
      {
        guard: { type: 'isOfAnother', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'tool_not_yours' } },
      },
      {
        guard: 'isVerified',
        actions: { type: 'reject', params: { code: 'tool_already_verified' } },
      },
      { actions: 'submit' },
    ],
    REVIEW: [
      {
        guard: { type: 'isAccepted', params: ({ event }) => event },
        actions: 'verify',
      },
      { actions: { type: 'refuse', params: ({ event }) => event } },
    ],
    ROTATE_SECRET: [
      {
        guard: { type: 'isOfAnother', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'tool_not_yours' } },
      },
      { actions: 'rotateSecret' },
    ],
    RETIRE: [
      {
        guard: { type: 'isOfAnother', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'tool_not_yours' } },
      },
      { target: '.retired', actions: { type: 'retire', params: ({ event }) => event } },
    ],
    MEASURE: {},
    '*': { actions: { type: 'reject', params: { code: 'internal' } } },
  },
  states: {
    pending: {
      on: {
        SUBMIT: [
          {
            guard: { type: 'isOfAnother', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'tool_not_yours' } },
          },
          { actions: { type: 'reject', params: { code: 'tool_not_active' } } },
        ],
      },
    },
    probation: {
      on: {
        MEASURE: [
          {
            guard: { type: 'isFailing', params: ({ event }) => event },
            target: 'suspended',
            actions: { type: 'suspend', params: ({ event }) => event },
          },
          {
            guard: { type: 'isProvenInUse', params: ({ event }) => event },
            target: 'listed',
          },
        ],
        REVIEW: [
          {
            guard: { type: 'isAccepted', params: ({ event }) => event },
            target: 'listed',
            actions: 'verify',
          },
          { actions: { type: 'refuse', params: ({ event }) => event } },
        ],
      },
    },
    listed: {
      on: {
        MEASURE: {
          guard: { type: 'isFailing', params: ({ event }) => event },
          target: 'suspended',
          actions: { type: 'suspend', params: ({ event }) => event },
        },
      },
    },
    suspended: {
      on: {
        SUBMIT: [
          {
            guard: { type: 'isOfAnother', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'tool_not_yours' } },
          },
          { actions: { type: 'reject', params: { code: 'tool_not_active' } } },
        ],
      },
    },
    retired: {
      tags: 'ended',
      on: {
        PROVE: { actions: { type: 'reject', params: { code: 'tool_retired' } } },
        CHANGE: { actions: { type: 'reject', params: { code: 'tool_retired' } } },
        SUBMIT: { actions: { type: 'reject', params: { code: 'tool_retired' } } },
        REVIEW: { actions: { type: 'reject', params: { code: 'tool_retired' } } },
        ROTATE_SECRET: { actions: { type: 'reject', params: { code: 'tool_retired' } } },
        // Repeating it changes nothing.
        RETIRE: {
          guard: { type: 'isOfAnother', params: ({ event }) => event },
          actions: { type: 'reject', params: { code: 'tool_not_yours' } },
        },
      },
    },
  },
})
