import type { RequestHeaders, PaymentOffer, OnchainPayment } from '../chain/onchain-payment.ts'
import type { DomainEvent } from '../core/domain-events.ts'
import type { Micros } from '../core/money.ts'
import type { CallRow, PriceShare } from '../core/commit-rows.ts'
import type { PaymentRef } from './call-admission-request.ts'

/** One request as the payment service sees it. */
export interface PaymentRequestContext {
  /** The path, for `resource.url` and for the fingerprint. */
  readonly path: string
  /** The raw body: MPP challenges are bound to it. */
  readonly body: Uint8Array
  /** Names in lower case. */
  readonly headers: RequestHeaders
  /** Identifies repeated requests. */
  readonly fingerprint: string
  /** The pseudonym of its network address; absent if it cannot bring a payment. */
  readonly address?: string
  /** Its Idempotency-Key. */
  readonly key?: string | null
}

/** An item for sale. */
export interface PayableItem {
  readonly description: string
  readonly price: Micros
  /** How long it may take to produce; a payment has to outlive it. */
  readonly deadlineMs: number
}

/** The buyer, and the call that the payment is for. */
export interface PaymentBuyer {
  readonly agentId: string | null
  readonly callId: string
  /** Time after which an unfinished call is given up. */
  readonly patienceMs: number
  /** A later claim would outlive the hold of its call, in milliseconds. */
  readonly claimBy?: number
  /** It pays a share to another agent, which a lost payment cannot take back. */
  readonly sharesPrice?: boolean
}

/** A payment that has been claimed for a call. */
export interface ClaimedPayment {
  readonly payment: OnchainPayment
  readonly ref: PaymentRef
  /** The transaction, if it settled before the call ran. */
  readonly tx: string | null
}

/** The reply that this payment has bought before. */
export interface EarlierPaidReply {
  readonly callId: string
  readonly status: number
  readonly body: unknown
  readonly tx: string | null
}

/** Finished calls of a keyless caller, stored with the payment. */
export interface PaidCallsDelivery {
  readonly ref: PaymentRef
  /** The call that claimed the payment. */
  readonly callId: string
  /** Their costs add up to the price. */
  readonly calls: readonly ((at: number) => CallRow)[]
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
  readonly events: readonly DomainEvent[]
  /** Parts of the prices that go to other agents, by call. */
  readonly shares?: readonly (PriceShare & { readonly callId: string })[]
}

/** Credits bought with an external payment. */
export interface CreditTopUpResult {
  readonly settlementId: string
  readonly tx: string
  /** The same payment was credited before: nothing was added now. */
  readonly replayed: boolean
  readonly headers: Record<string, string>
}

/** The public state of a payment by its id: no bodies, no signatures. */
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

/** External payments for requests: offers, reads, claims and settles them. */
export interface PaymentService {
  /** What to pay; null while no rail is on. */
  offer(path: string, item: PayableItem): PaymentOffer | null
  /** Whether a request brings a payment. */
  hasPayment(request: Pick<PaymentRequestContext, 'headers'>): boolean
  /** The payment of a request if it was used before, whatever the current offer; else null. */
  findUsedPayment(request: PaymentRequestContext): Promise<OnchainPayment | null>
  /**
   * The payment of a request. Rejects with a ServiceError if it is invalid, unless it was used
   * before: its outcome does not depend on the current offer.
   */
  read(request: PaymentRequestContext, offer: PaymentOffer | null): Promise<OnchainPayment>
  refOf(payment: OnchainPayment): PaymentRef
  /**
   * What an earlier request bought with this payment; null if it is unused. Rejects if it is in
   * use, was used for something else, or its outcome is unknown.
   */
  findEarlierReply(
    payment: OnchainPayment,
    request: PaymentRequestContext,
    agentId: string | null,
    offer: PaymentOffer | null,
  ): Promise<EarlierPaidReply | null>
  /** Verifies and claims the payment; waits for the chain if it has to settle first. */
  claim(
    payment: OnchainPayment,
    request: PaymentRequestContext,
    buyer: PaymentBuyer,
    offer: PaymentOffer | null,
  ): Promise<ClaimedPayment>
  /** Stores a keyless call and makes its payment due, in one commit. */
  deliver(delivery: PaidCallsDelivery): Promise<void>
  /**
   * Ends a failed call: the payment is free again, or it has settled and stays valid for this
   * request. Resolves to which of them.
   */
  release(
    ref: PaymentRef,
    callId: string,
    row: ((at: number) => CallRow) | null,
  ): Promise<'free' | 'kept'>
  /** Makes the payer absorb the outcome that an agent's commit has left in its inbox. */
  notifyPayer(ref: PaymentRef): Promise<void>
  /**
   * Fails the call unless the agent's commits have reported another outcome: the agent holds
   * nothing for it.
   */
  abandon(ref: PaymentRef, callId: string): Promise<void>
  /** The payment headers of a reply, in the payment's dialect. */
  replyHeaders(payment: OnchainPayment, ref: PaymentRef, tx: string | null): Record<string, string>
  settlementUrl(ref: PaymentRef): string
  /** Buys credits for an agent; settles first. Rejects as a paid call does. */
  topUp(request: PaymentRequestContext, agentId: string, amount: Micros): Promise<CreditTopUpResult>
  /** The settlement with this id, or null. */
  settlement(id: string): Promise<PublicSettlement | null>
  /** A 402 in every dialect at once. */
  challenge(
    offer: PaymentOffer,
    body: Uint8Array,
    reason?: string,
  ): { headers: Record<string, string>; body: Record<string, unknown> }
}
