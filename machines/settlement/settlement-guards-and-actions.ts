import { and, assign, not, or, stateIn } from 'xstate'
import {
  isSamePaymentRequest,
  type RequesterIdentity,
} from '../../domain/repeated-payment-request-check.ts'
import type { Micros } from '../../core/money.ts'
import { createBaseMachineSetup, type EventOfType } from '../machine-setup.ts'

/** The context, events, guards and actions of a payment. */

/**
 * `optimistic`: the call runs before its payment settles; `first`: after it; `withheld`: it runs before, and its
 * answer is kept until the payment has settled.
 */
export type SettlementMode = 'optimistic' | 'first' | 'withheld'

/** What the payment buys: one call, or credits of an agent. */
export type SettlementPurpose =
  | { readonly kind: 'call' }
  | { readonly kind: 'topup'; readonly agentId: string }

/** The call that currently uses the payment. There is one at a time. */
export interface CallUsingPayment {
  readonly callId: string
  /** Milliseconds. After this time a runner without an agent counts as dead. */
  readonly until: number
}

/** One use of a payment. */
interface SettlementClaimFields {
  readonly amount: bigint
  readonly price: Micros
  /** Seconds since the epoch. */
  readonly validBefore: number
  readonly mode: SettlementMode
  readonly purpose: SettlementPurpose
  readonly agentId: string | null
  readonly callId: string
  /** Hash of the method, path and body that the payment was used for. */
  readonly fingerprint: string
  /** Hash of the bytes that the payer signed. */
  readonly credential: string
  /** Identity of the requester; null for claims that did not record it. */
  readonly marks: RequesterIdentity | null
  readonly expiresAt: number
  readonly at: number
}

export interface SettlementMachineInput extends SettlementClaimFields {
  readonly settlementId: string
  readonly chain: 'base' | 'bsc' | 'solana' | 'tempo'
  readonly asset: string
  /** CAIP-10 account id. */
  readonly payer: string
}

export interface SettlementMachineContext extends Omit<SettlementMachineInput, 'at' | 'expiresAt'> {
  readonly runner: CallUsingPayment | null
  /** Number of claims: a released payment may be used again. */
  readonly claims: number
  readonly txHash: string | null
  /** Number of our transactions in a block that did not pay. */
  readonly attempts: number
  /**
   * Milliseconds. A lost payment is checked once more then: others may submit it until it expires.
   */
  readonly lookAt: number | null
  readonly claimedAt: number
  readonly settledAt: number | null
  /** How often the chain has undone it after settlement. */
  readonly undone: number
  /** The chain has undone it while an agent still has the credits it brought. */
  readonly credited: boolean
}

export type SettlementMachineEvent =
  | ({ readonly type: 'CLAIM' } & SettlementClaimFields)
  | { readonly type: 'DELIVER'; readonly callId: string }
  | { readonly type: 'RELEASE'; readonly callId: string }
  | { readonly type: 'EXPIRE'; readonly callId: string }
  | { readonly type: 'SUBMITTED'; readonly txHash: string | null }
  | { readonly type: 'UNKNOWN' }
  /**
   * The transaction did not count and may be sent again; `failed`: it was in a block and cost gas.
   */
  | { readonly type: 'RETRY'; readonly failed: boolean }
  | { readonly type: 'SETTLED'; readonly txHash: string; readonly at: number }
  | { readonly type: 'LOST'; readonly lookAt: number | null }
  /** The block of the settlement left the chain. */
  | { readonly type: 'UNDONE' }

export const settlementMachineSetup = createBaseMachineSetup<
  SettlementMachineContext,
  SettlementMachineEvent,
  SettlementMachineInput
>().extend({
  guards: {
    settlesFirst: ({ context }) => context.mode === 'first',
    withholdsAnswer: (
      { context: { mode, runner } },
      event: EventOfType<SettlementMachineEvent, 'DELIVER'>,
    ) => mode === 'withheld' && runner?.callId === event.callId,
    isTopUp: ({ context }) => context.purpose.kind === 'topup',
    hasAgent: ({ context }) => context.agentId !== null,
    isOther: ({ context }, event: EventOfType<SettlementMachineEvent, 'CLAIM'>) =>
      !isSamePaymentRequest(context, event),
    isRunner: (
      { context },
      event: EventOfType<SettlementMachineEvent, 'DELIVER' | 'RELEASE' | 'EXPIRE'>,
    ) => context.runner?.callId === event.callId,
    isNotRunner: (
      { context },
      event: EventOfType<SettlementMachineEvent, 'DELIVER' | 'RELEASE' | 'EXPIRE'>,
    ) => context.runner?.callId !== event.callId,
    /** For an agent, the hold ends the call and not this expiry. */
    isFree: (
      { context: { runner, agentId } },
      event: EventOfType<SettlementMachineEvent, 'CLAIM'>,
    ) => runner === null || (agentId === null && event.at >= runner.until),
    isUnspent: or([stateIn({ money: 'claimed' }), stateIn({ money: 'released' })]),
    isDelivered: stateIn({ delivery: 'delivered' }),
    isUndelivered: not(stateIn({ delivery: 'delivered' })),
    hasFailed: stateIn({ delivery: 'failed' }),
    /** A top-up, or a failed call: an agent received credits for it. */
    hasCredited: or(['hasFailed', and(['isTopUp', stateIn({ delivery: 'delivered' })])]),
  },
  actions: {
    claimAgain: assign(({ context }, event: EventOfType<SettlementMachineEvent, 'CLAIM'>) => {
      const { type: _, at, expiresAt, ...claim } = event
      return {
        ...claim,
        runner: { callId: claim.callId, until: expiresAt },
        claims: context.claims + 1,
        claimedAt: at,
        txHash: null,
      }
    }),
    runAgain: assign((_, event: EventOfType<SettlementMachineEvent, 'CLAIM'>) => {
      const { callId, expiresAt: until } = event
      return { callId, runner: { callId, until } }
    }),
    freeRunner: assign({ runner: null }),
    noteSubmitted: assign((_, event: EventOfType<SettlementMachineEvent, 'SUBMITTED'>) => ({
      txHash: event.txHash,
    })),
    countFailure: assign(({ context }, event: EventOfType<SettlementMachineEvent, 'RETRY'>) =>
      event.failed ? { attempts: context.attempts + 1, txHash: null } : {},
    ),
    noteSettled: assign((_, event: EventOfType<SettlementMachineEvent, 'SETTLED'>) => ({
      txHash: event.txHash,
      settledAt: event.at,
      lookAt: null,
      credited: false,
    })),
    noteLost: assign((_, event: EventOfType<SettlementMachineEvent, 'LOST'>) => ({
      lookAt: event.lookAt,
      credited: false,
    })),
    noteUndone: assign(({ context }) => ({ settledAt: null, undone: context.undone + 1 })),
    keepCredits: assign({ credited: true }),
  },
})
