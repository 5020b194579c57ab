import type { RequestHeaders, PaymentOffer, OnchainPayment } from '../chain/payment.ts'
import type { DomainEvent } from '../core/domain-events.ts'
import type { Micros } from '../core/money.ts'
import type { CallRow, PriceShare } from '../core/commit-rows.ts'
import type { PaymentRef } from './call-admission.ts'

/** One request as a payment sees it: where it came in, what it said, and what it brought. */
export interface PaymentContext {
  /** The path, for `resource.url` and for the fingerprint. */
  readonly path: string
  /** The body as it came: MPP challenges are bound to it. */
  readonly body: Uint8Array
  /** Names in lower case. */
  readonly headers: RequestHeaders
  /** What makes two requests the same. */
  readonly fingerprint: string
  /** The pseudonym of the address it came from; absent where it cannot bring a payment. */
  readonly address?: string
  /** Its Idempotency-Key. */
  readonly key?: string | null
}

/** What is for sale. */
export interface PayableItem {
  readonly description: string
  readonly price: Micros
  /** How long it may take to make; a payment has to outlive it. */
  readonly deadlineMs: number
}

/** Who asks with this payment, and for which call. */
export interface PaymentBuyer {
  readonly agentId: string | null
  readonly callId: string
  /** After so long without a word the call is given up. */
  readonly patienceMs: number
  /** Claimed later than this, in milliseconds, the payment would outlive the hold of its call. */
  readonly claimBy?: number
  /** What it buys gives somebody else a share, which no loss of the payment can take back. */
  readonly sharesPrice?: boolean
}

/** A payment that has been claimed for a call. */
export interface ClaimedPayment {
  readonly payment: OnchainPayment
  readonly ref: PaymentRef
  /** The transaction, where it settled before the call ran. */
  readonly tx: string | null
}

/** The answer that this payment has bought before. */
export interface EarlierPaidReply {
  readonly callId: string
  readonly status: number
  readonly body: unknown
  readonly tx: string | null
}

/** Finished calls of a caller without a key: their rows go with the payment. */
export interface PaidCallsDelivery {
  readonly ref: PaymentRef
  /** The call that claimed the payment. */
  readonly callId: string
  /** Their costs add up to the price. */
  readonly calls: readonly ((at: number) => CallRow)[]
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
  readonly events: readonly DomainEvent[]
  /** Parts of the prices that are other agents', by the call. */
  readonly shares?: readonly (PriceShare & { readonly callId: string })[]
}

/** Credits that were bought from outside. */
export interface CreditTopUpResult {
  readonly settlementId: string
  readonly tx: string
  /** The same payment had been credited before: nothing was added now. */
  readonly replayed: boolean
  readonly headers: Record<string, string>
}

/** The state of a payment, for whoever knows its id: no bodies, no signatures. */
export interface PublicSettlement {
  readonly id: string
  readonly state: string
  readonly delivery: string
  readonly chain: string
  readonly asset: string
  readonly payer: string
  readonly amount: string
  readonly price: Micros
  readonly tx: string | null
  readonly createdAt: Date
}

/** The ways to pay for one request from outside: what it costs there, and what a payment is good for. */
export interface PaymentService {
  /** What to pay; null while no rail is on. */
  offer(path: string, item: PayableItem): PaymentOffer | null
  /** Whether a request brings a payment at all. */
  hasPayment(door: Pick<PaymentContext, 'headers'>): boolean
  /** The payment of a request if it was used before, whatever is offered now; else null. */
  findUsedPayment(door: PaymentContext): Promise<OnchainPayment | null>
  /**
   * The payment of a request. Rejects with what is wrong with it as a ServiceError, unless it was
   * used before: what became of that does not change with what is offered.
   */
  read(door: PaymentContext, offer: PaymentOffer | null): Promise<OnchainPayment>
  refOf(payment: OnchainPayment): PaymentRef
  /**
   * What an earlier request did with this payment; null when it is free to be used. Rejects when it
   * is being used, was used for something else, or its outcome is not known.
   */
  findEarlierReply(
    payment: OnchainPayment,
    door: PaymentContext,
    agentId: string | null,
    offer: PaymentOffer | null,
  ): Promise<EarlierPaidReply | null>
  /** Verifies the payment and claims it, and waits for the chain where it has to settle first. */
  claim(
    payment: OnchainPayment,
    door: PaymentContext,
    buyer: PaymentBuyer,
    offer: PaymentOffer | null,
  ): Promise<ClaimedPayment>
  /** Keeps a call without a key and lets its payment settle, in one commit. */
  deliver(delivery: PaidCallsDelivery): Promise<void>
  /**
   * The call failed: the payment is free again, or it has settled and stays good for this very
   * request. Resolves to which.
   */
  release(
    ref: PaymentRef,
    callId: string,
    row: ((at: number) => CallRow) | null,
  ): Promise<'free' | 'kept'>
  /** The commit of an agent has said what became of its call: the payer hears of it now. */
  notifyPayer(ref: PaymentRef): Promise<void>
  /** The agent's books hold nothing for the call any more: unless they have said why, it has failed. */
  abandon(ref: PaymentRef, callId: string): Promise<void>
  /** What the reply says of the payment, in its own dialect. */
  replyHeaders(payment: OnchainPayment, ref: PaymentRef, tx: string | null): Record<string, string>
  settlementUrl(ref: PaymentRef): string
  /** Credits for an agent, settled before they are given. Rejects as a paid call does. */
  topUp(door: PaymentContext, agentId: string, amount: Micros): Promise<CreditTopUpResult>
  /** What is known of a settlement by its id. */
  settlement(id: string): Promise<PublicSettlement | null>
  /** A 402 in every dialect at once. */
  challenge(
    offer: PaymentOffer,
    body: Uint8Array,
    reason?: string,
  ): { headers: Record<string, string>; body: Record<string, unknown> }
}
