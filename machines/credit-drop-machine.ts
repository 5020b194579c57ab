import { assign } from 'xstate'
import type { Micros } from '../core/money.ts'
import { createBaseMachineSetup, type EventOfType } from './machine-setup.ts'

/** A credit drop: a limited number of promotional credits, first come, first served. */

export interface CreditDropMachineInput {
  readonly code: string
  readonly slots: number
  /** Promotional credits per slot. */
  readonly credit: Micros
  readonly at: number
  readonly expiresAt: number
}

export interface CreditDropMachineContext {
  readonly code: string
  readonly slots: number
  readonly credit: Micros
  readonly openedAt: number
  readonly expiresAt: number
  /** Agents that have taken a slot, in order. */
  readonly redeemers: readonly string[]
}

export interface CreditDropMachineEvent {
  readonly type: 'REDEEM'
  readonly agentId: string
  readonly at: number
}

const creditDropSetup = createBaseMachineSetup<
  CreditDropMachineContext,
  CreditDropMachineEvent,
  CreditDropMachineInput
>().extend({
  delays: {
    life: ({ context: { openedAt, expiresAt } }) => expiresAt - openedAt,
  },
  guards: {
    hasRedeemed: ({ context }, event: EventOfType<CreditDropMachineEvent, 'REDEEM'>) =>
      context.redeemers.includes(event.agentId),
    // The timer may be late: the time of the request decides.
    hasPassed: ({ context }, event: EventOfType<CreditDropMachineEvent, 'REDEEM'>) =>
      event.at >= context.expiresAt,
    isLastSlot: ({ context }) => context.redeemers.length + 1 === context.slots,
  },
  actions: {
    redeem: assign(({ context }, event: EventOfType<CreditDropMachineEvent, 'REDEEM'>) => ({
      redeemers: [...context.redeemers, event.agentId],
    })),
  },
})

/**
 * Promotional credits for the first agents that redeem the code: one slot per agent, for a limited
 * time.
 */
export const creditDropMachine = creditDropSetup.createMachine({
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
      {
        guard: { type: 'hasRedeemed', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'drop_redeemed' } },
      },
      { actions: { type: 'reject', params: { code: 'drop_ended' } } },
    ],
    '*': { actions: { type: 'reject', params: { code: 'internal' } } },
  },
  states: {
    open: {
      after: { life: 'ended' },
      on: {
        REDEEM: [
          {
            guard: { type: 'hasRedeemed', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'drop_redeemed' } },
          },
          {
            guard: { type: 'hasPassed', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'drop_ended' } },
          },
          {
            guard: 'isLastSlot',
            target: 'ended',
            actions: { type: 'redeem', params: ({ event }) => event },
          },
          {
            actions: { type: 'redeem', params: ({ event }) => event },
          },
        ],
      },
    },
    ended: { tags: 'ended' },
  },
})
