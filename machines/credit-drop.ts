import { assertEvent, assign, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import type { Micros } from '../core/money.ts'

export interface CreditDropInput {
  readonly code: string
  readonly slots: number
  /** What each slot is worth. */
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
  /** The agents that have taken a slot, in this order. */
  readonly redeemers: readonly string[]
}

export interface CreditDropEvent {
  readonly type: 'REDEEM'
  readonly agentId: string
  readonly at: number
}

/** Promotional credits for the first who ask: a few slots, one for each agent, for a short time. */
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
    // The timer may come late: the instant of the request decides.
    hasPassed: ({ context, event }) => {
      assertEvent(event, 'REDEEM')
      return event.at >= context.expiresAt
    },
    isLastSlot: ({ context }) => context.redeemers.length + 1 === context.slots,
  },
  actions: {
    /** Does nothing: its presence among the actions of a step is the refusal. */
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
