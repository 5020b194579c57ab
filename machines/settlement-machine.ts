import { and, assertEvent, assign, not, or, setup, stateIn } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import { isRepeatedPaymentRequest, type RequesterIdentity } from '../domain/requester-identity.ts'
import type { Micros } from '../core/money.ts'

/** A payment: its settlement on chain and the delivery of what it pays for. */

/** `optimistic`: the call runs before its payment settles; `first`: after it. */
export type SettlementMode = 'optimistic' | 'first'

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

export interface SettlementInput extends SettlementClaimFields {
  readonly settlementId: string
  readonly chain: 'base' | 'bsc' | 'solana' | 'tempo'
  readonly asset: string
  /** CAIP-10 account id. */
  readonly payer: string
}

export interface SettlementContext extends Omit<SettlementInput, 'at' | 'expiresAt'> {
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

export type SettlementEvent =
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

const settlementSetup = setup({
  types: {} as { context: SettlementContext; events: SettlementEvent; input: SettlementInput },
  guards: {
    settlesFirst: ({ context }) => context.mode === 'first',
    isTopUp: ({ context }) => context.purpose.kind === 'topup',
    hasAgent: ({ context }) => context.agentId !== null,
    isOther: ({ context, event }) => {
      assertEvent(event, 'CLAIM')
      return !isRepeatedPaymentRequest(context, event)
    },
    isRunner: ({ context, event }) => {
      assertEvent(event, ['DELIVER', 'RELEASE', 'EXPIRE'])
      return context.runner?.callId === event.callId
    },
    isNotRunner: ({ context, event }) => {
      assertEvent(event, ['DELIVER', 'RELEASE', 'EXPIRE'])
      return context.runner?.callId !== event.callId
    },
    /** For an agent, the hold ends the call and not this expiry. */
    isFree: ({ context: { runner, agentId }, event }) => {
      assertEvent(event, 'CLAIM')
      return runner === null || (agentId === null && event.at >= runner.until)
    },
    isUnspent: or([stateIn({ money: 'claimed' }), stateIn({ money: 'released' })]),
    isDelivered: stateIn({ delivery: 'delivered' }),
    isUndelivered: not(stateIn({ delivery: 'delivered' })),
    hasFailed: stateIn({ delivery: 'failed' }),
    /** A top-up, or a failed call: an agent received credits for it. */
    hasCredited: or(['hasFailed', and(['isTopUp', stateIn({ delivery: 'delivered' })])]),
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode; reason?: string }) => {},
    /** Does nothing: there is a response to repeat, or the event has happened already. */
    accept: () => {},
    claimAgain: assign(({ context, event }) => {
      assertEvent(event, 'CLAIM')
      const { type: _, at, expiresAt, ...claim } = event
      return {
        ...claim,
        runner: { callId: claim.callId, until: expiresAt },
        claims: context.claims + 1,
        claimedAt: at,
        txHash: null,
      }
    }),
    runAgain: assign(({ event }) => {
      assertEvent(event, 'CLAIM')
      const { callId, expiresAt: until } = event
      return { callId, runner: { callId, until } }
    }),
    freeRunner: assign({ runner: null }),
    noteSubmitted: assign(({ event }) => {
      assertEvent(event, 'SUBMITTED')
      return { txHash: event.txHash }
    }),
    countFailure: assign(({ context, event }) => {
      assertEvent(event, 'RETRY')
      return event.failed ? { attempts: context.attempts + 1, txHash: null } : {}
    }),
    noteSettled: assign(({ event }) => {
      assertEvent(event, 'SETTLED')
      return { txHash: event.txHash, settledAt: event.at, lookAt: null, credited: false }
    }),
    noteLost: assign(({ event }) => {
      assertEvent(event, 'LOST')
      return { lookAt: event.lookAt, credited: false }
    }),
    noteUndone: assign(({ context }) => ({ settledAt: null, undone: context.undone + 1 })),
    keepCredits: assign({ credited: true }),
  },
})

type RejectAction = { type: 'refuse'; params: { code: ErrorCode; reason?: string } }
const rejectWith = <const C extends ErrorCode>(
  code: C,
  reason?: string,
): RejectAction & { params: { code: C } } => ({
  type: 'refuse',
  params: reason === undefined ? { code } : { code, reason },
})

const rejectOtherRequest = {
  guard: 'isOther',
  actions: rejectWith('payment_already_used'),
} as const
const repeatDelivered = { guard: 'isDelivered', actions: 'accept' } as const
const toSettled = { target: 'settled', actions: 'noteSettled' } as const
const toLost = { target: 'lost', actions: 'noteLost' } as const
const toSubmitted = { target: 'submitted', actions: 'noteSubmitted' } as const
/** While the payment is or may be in transit, a claim never asks to pay again. */
const claimWhileInTransit = [
  rejectOtherRequest,
  repeatDelivered,
  { actions: rejectWith('settlement_unknown') },
] as const

/**
 * One payment: the state of the money and of the call it pays for. Nothing is sent to a chain
 * before it is due. A payment is lost only when it can no longer settle. `settled` follows the
 * chain, which may undo it.
 */
export const settlementMachine = settlementSetup.createMachine({
  id: 'settlement',
  type: 'parallel',
  context: ({ input: { at, expiresAt, ...claim } }) => ({
    ...claim,
    runner: { callId: claim.callId, until: expiresAt },
    claims: 1,
    txHash: null,
    attempts: 0,
    lookAt: null,
    claimedAt: at,
    settledAt: null,
    undone: 0,
    credited: false,
  }),
  on: {
    // Late timers, and events that another node has reported already.
    EXPIRE: { actions: 'accept' },
    SUBMITTED: { actions: 'accept' },
    UNKNOWN: { actions: 'accept' },
    RETRY: { actions: 'accept' },
    SETTLED: { actions: 'accept' },
    LOST: { actions: 'accept' },
    UNDONE: { actions: 'accept' },
    '*': { actions: rejectWith('internal') },
  },
  states: {
    money: {
      initial: 'claimed',
      states: {
        claimed: {
          always: { guard: 'settlesFirst', target: 'due' },
          on: {
            CLAIM: [rejectOtherRequest, { actions: rejectWith('payment_in_progress') }],
            DELIVER: { guard: 'isRunner', target: 'due' },
            RELEASE: { guard: 'isRunner', target: 'released' },
            EXPIRE: { guard: 'isRunner', target: 'released' },
          },
        },
        due: {
          on: {
            CLAIM: claimWhileInTransit,
            SUBMITTED: toSubmitted,
            UNKNOWN: 'unknown',
            SETTLED: toSettled,
          },
        },
        submitted: {
          on: { CLAIM: claimWhileInTransit, UNKNOWN: 'unknown', SETTLED: toSettled },
        },
        unknown: {
          on: {
            CLAIM: claimWhileInTransit,
            SUBMITTED: toSubmitted,
            RETRY: { target: 'due', actions: 'countFailure' },
            SETTLED: toSettled,
            LOST: toLost,
          },
        },
        settled: {
          on: {
            CLAIM: [
              rejectOtherRequest,
              repeatDelivered,
              { guard: 'hasFailed', actions: rejectWith('payment_credited') },
              { guard: 'isFree', actions: 'runAgain' },
              { actions: rejectWith('payment_in_progress') },
            ],
            // The signature is still valid: look up its nonce and settle again.
            UNDONE: [
              { guard: 'hasCredited', target: 'unknown', actions: ['noteUndone', 'keepCredits'] },
              { target: 'unknown', actions: 'noteUndone' },
            ],
          },
        },
        released: {
          on: {
            CLAIM: [
              { guard: 'isFree', target: 'claimed', actions: 'claimAgain' },
              { actions: rejectWith('payment_in_progress') },
            ],
            // The agent's own commit delivered after the payment was released.
            DELIVER: { guard: 'isRunner', target: 'lost' },
          },
        },
        lost: {
          on: {
            CLAIM: [
              { guard: 'isUndelivered', actions: rejectWith('payment_invalid', 'lost') },
              rejectOtherRequest,
              { actions: 'accept' },
            ],
            SETTLED: toSettled,
            LOST: { actions: 'noteLost' },
          },
        },
      },
    },
    delivery: {
      initial: 'waiting',
      states: {
        waiting: {
          on: {
            DELIVER: [
              { guard: 'isRunner', target: 'delivered', actions: 'freeRunner' },
              { actions: rejectWith('call_settled') },
            ],
            RELEASE: [
              { guard: 'isNotRunner', actions: rejectWith('call_settled') },
              { guard: 'isUnspent', actions: 'freeRunner' },
              { guard: 'hasAgent', target: 'failed', actions: 'freeRunner' },
              { actions: 'freeRunner' },
            ],
            // For an agent, the hold ends the call.
            EXPIRE: [
              { guard: 'hasAgent', actions: 'accept' },
              { guard: 'isNotRunner', actions: 'accept' },
              { guard: 'isUnspent', actions: 'freeRunner' },
              { actions: 'accept' },
            ],
            SETTLED: { guard: 'isTopUp', target: 'delivered', actions: 'freeRunner' },
          },
        },
        delivered: {
          on: {
            DELIVER: { actions: rejectWith('call_settled') },
            RELEASE: { actions: rejectWith('call_settled') },
          },
        },
        failed: {
          on: {
            DELIVER: { actions: rejectWith('call_settled') },
            RELEASE: { actions: rejectWith('call_settled') },
          },
        },
      },
    },
  },
})
