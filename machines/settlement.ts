import { and, assertEvent, assign, not, or, setup, stateIn } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import { isRepeatedPaymentRequest, type RequesterIdentity } from '../domain/requester-identity.ts'
import type { Micros } from '../core/money.ts'

/** `optimistic`: the call runs before its payment settles; `first`: after it. */
export type SettlementMode = 'optimistic' | 'first'

/** What the money is for: one call, or credits of an agent. */
export type SettlementPurpose =
  | { readonly kind: 'call' }
  | { readonly kind: 'topup'; readonly agentId: string }

/** Who may deliver for this payment right now: one call at a time. */
export interface SettlementRunner {
  readonly callId: string
  /** A runner without an agent is believed dead from then on, in milliseconds. */
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
  /** Of method, path and body: what the payment was used for. */
  readonly fingerprint: string
  /** Of the bytes the payer signed. */
  readonly credential: string
  /** Of who sent the request; null for a claim of which it was not kept. */
  readonly marks: RequesterIdentity | null
  readonly expiresAt: number
  readonly at: number
}

export interface SettlementInput extends SettlementClaimFields {
  readonly settlementId: string
  readonly chain: 'base' | 'bsc' | 'solana' | 'tempo'
  readonly asset: string
  /** CAIP-10. */
  readonly payer: string
}

export interface SettlementContext extends Omit<SettlementInput, 'at' | 'expiresAt'> {
  readonly runner: SettlementRunner | null
  /** How often it was claimed: a released payment may be used again. */
  readonly claims: number
  readonly txHash: string | null
  /** How often a block has had a transaction of ours for it that did not pay. */
  readonly attempts: number
  /** Lost, and yet somebody may submit it until it expires: one more look, in milliseconds. */
  readonly lookAt: number | null
  readonly claimedAt: number
  readonly settledAt: number | null
  /** How often the chain has undone it after it had settled. */
  readonly undone: number
  /** The chain has undone it, and the credits it brought to an agent are still there. */
  readonly credited: boolean
}

export type SettlementEvent =
  | ({ readonly type: 'CLAIM' } & SettlementClaimFields)
  | { readonly type: 'DELIVER'; readonly callId: string }
  | { readonly type: 'RELEASE'; readonly callId: string }
  | { readonly type: 'EXPIRE'; readonly callId: string }
  | { readonly type: 'SUBMITTED'; readonly txHash: string | null }
  | { readonly type: 'UNKNOWN' }
  /** What was sent did not count and may be sent anew; `failed`: in a block, which cost its gas. */
  | { readonly type: 'RETRY'; readonly failed: boolean }
  | { readonly type: 'SETTLED'; readonly txHash: string; readonly at: number }
  | { readonly type: 'LOST'; readonly lookAt: number | null }
  /** The block in which it had settled is not of the chain any more. */
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
    /** The hold of an agent says itself when it ends. */
    isFree: ({ context: { runner, agentId }, event }) => {
      assertEvent(event, 'CLAIM')
      return runner === null || (agentId === null && event.at >= runner.until)
    },
    isUnspent: or([stateIn({ money: 'claimed' }), stateIn({ money: 'released' })]),
    isDelivered: stateIn({ delivery: 'delivered' }),
    isUndelivered: not(stateIn({ delivery: 'delivered' })),
    hasFailed: stateIn({ delivery: 'failed' }),
    /** A top-up, or a call that failed: an agent has got credits for it. */
    hasCredited: or(['hasFailed', and(['isTopUp', stateIn({ delivery: 'delivered' })])]),
  },
  actions: {
    /** Does nothing: its presence among the actions of a step is the refusal. */
    refuse: (_, _params: { code: ErrorCode; reason?: string }) => {},
    /** Does nothing: there is an answer to repeat, or it has happened already. */
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
/** Money that is on its way, or may be: whoever asks is never told to pay again. */
const claimWhileInTransit = [
  rejectOtherRequest,
  repeatDelivered,
  { actions: rejectWith('settlement_unknown') },
] as const

/**
 * One payment: what became of the money, and what became of the call it pays for. Nothing is ever
 * sent to a chain before it is due, and only what can no longer settle is lost. Settled is what the
 * chain says, until it says otherwise.
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
    // Alarms that come late, and what another node has found out already.
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
            // What was signed is still good: it is asked after by its nonce, and settled again.
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
            // The agent's own commit has delivered after the payment was given up.
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
            // The hold of an agent says itself when its call has ended.
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
