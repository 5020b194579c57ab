import { assertEvent, assign, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import type { Micros } from '../core/money.ts'

/** A credit drop: a limited number of promotional credits, first come, first served. */

export interface CreditDropInput {
  readonly code: string
  readonly slots: number
  /** Promotional credits per slot. */
  readonly credit: Micros
  readonly at: number
  readonly expiresAt: number
}

export interface CreditDropContext {
  readonly code: string
  readonly slots: number
  readonly credit: Micros
  readonly openedAt: number
  readonly expiresAt: number
  /** Agents that have taken a slot, in order. */
  readonly redeemers: readonly string[]
}

export interface CreditDropEvent {
  readonly type: 'REDEEM'
  readonly agentId: string
  readonly at: number
}

/**
 * Promotional credits for the first agents that redeem the code: one slot per agent, for a limited
 * time.
 */
export const creditDropMachine = setup({
  types: {} as { context: CreditDropContext; events: CreditDropEvent; input: CreditDropInput },
  delays: {
    life: ({ context: { openedAt, expiresAt } }) => expiresAt - openedAt,
  },
  guards: {
    hasRedeemed: ({ context, event }) => {
      assertEvent(event, 'REDEEM')
      return context.redeemers.includes(event.agentId)
    },
    // The timer may be late: the time of the request decides.
    hasPassed: ({ context, event }) => {
      assertEvent(event, 'REDEEM')
      return event.at >= context.expiresAt
    },
    isLastSlot: ({ context }) => context.redeemers.length + 1 === context.slots,
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    redeem: assign(({ context, event }) => {
      assertEvent(event, 'REDEEM')
      return { redeemers: [...context.redeemers, event.agentId] }
    }),
  },
}).createMachine({
  id: 'drop',
  context: ({ input: { code, slots, credit, at, expiresAt } }) => ({
    code,
    slots,
    credit,
    openedAt: at,
    expiresAt,
    redeemers: [],
  }),
  initial: 'open',
  on: {
    REDEEM: [
      { guard: 'hasRedeemed', actions: { type: 'refuse', params: { code: 'drop_redeemed' } } },
      { actions: { type: 'refuse', params: { code: 'drop_ended' } } },
    ],
    '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
  },
  states: {
    open: {
      after: { life: 'ended' },
      on: {
        REDEEM: [
          { guard: 'hasRedeemed', actions: { type: 'refuse', params: { code: 'drop_redeemed' } } },
          { guard: 'hasPassed', actions: { type: 'refuse', params: { code: 'drop_ended' } } },
          { guard: 'isLastSlot', target: 'ended', actions: 'redeem' },
          { actions: 'redeem' },
        ],
      },
    },
    ended: {},
  },
})
