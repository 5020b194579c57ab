import type { PaymentOffer, NormalizedPayment } from '../chain/onchain-payment-types.ts'
import type { PaymentHeader } from '../chain/find-request-payment-header.ts'
import type { DomainEvent } from '../core/domain-events.ts'
import type { Micros } from '../core/money.ts'
import type { CallRow, PriceShare } from '../core/aggregate-commit-row-types.ts'
import type { ExternalCallPaymentRef } from './agent-call-admission-request-types.ts'

/** One request as the payment service sees it. */
export interface PaymentRequestContext {
  /** What is bought, for `resource.url`: a path of this station, or a whole address such as `mcp://tool/…`. */
  readonly path: string
  /** The raw body: MPP challenges are bound to it. */
  readonly body: Uint8Array
  /** Null if it brings no payment. */
  readonly paymentHeader: PaymentHeader | null
  /** Identifies repeated requests. */
  readonly fingerprint: string
  /** The pseudonym of its network address; absent if it cannot bring a payment. */
  readonly address?: string
  /** Its Idempotency-Key. */
  readonly key?: string | null
}

/** An item for sale. */
export interface ItemForSale {
  readonly description: string
  readonly price: Micros
  /** How long it may take to produce; a payment has to outlive it. */
  readonly deadlineMs: number
  /** Its payment settles when the answer exists: rails that have to settle first do not sell it. */
  readonly settlesAfterAnswer?: boolean
}

/** The buyer, and the call that the payment is for. */
export interface PaymentBuyerAndCall {
  readonly agentId: string | null
  readonly callId: string
  /** Time after which an unfinished call is given up. */
  readonly patienceMs: number
  /** A later claim would outlive the hold of its call, in milliseconds. */
  readonly claimBy?: number
  /** It pays a share to another agent, which a lost payment cannot take back. */
  readonly sharesPrice?: boolean
  /** The call runs before its payment settles, and its answer is kept until then. */
  readonly withholdsAnswer?: boolean
}

/** A payment that has been claimed for a call. */
export interface ClaimedPayment {
  readonly payment: NormalizedPayment
  readonly ref: ExternalCallPaymentRef
  /** Whether it settled before the call ran. */
  readonly settled: boolean
  /** Its transaction then, if that is known. */
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
export interface FinishedCallsOfPayment {
  readonly ref: ExternalCallPaymentRef
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
  offer(path: string, item: ItemForSale): PaymentOffer | null
  /** The payment of a request if it was used before, whatever the current offer; else null. */
  findUsedPayment(request: PaymentRequestContext): Promise<NormalizedPayment | null>
  /**
   * The payment of a request. Rejects with a ServiceError if it is invalid, unless it was used
   * before: its outcome does not depend on the current offer.
   */
  read(request: PaymentRequestContext, offer: PaymentOffer | null): Promise<NormalizedPayment>
  refOf(payment: NormalizedPayment): ExternalCallPaymentRef
  /**
   * What an earlier request bought with this payment; null if it is unused. Rejects if it is in
   * use, was used for something else, or its outcome is unknown.
   */
  findEarlierReply(
    payment: NormalizedPayment,
    request: PaymentRequestContext,
    agentId: string | null,
    offer: PaymentOffer | null,
  ): Promise<EarlierPaidReply | null>
  /** Verifies and claims the payment; waits for the chain if it has to settle first. */
  claim(
    payment: NormalizedPayment,
    request: PaymentRequestContext,
    buyer: PaymentBuyerAndCall,
    offer: PaymentOffer | null,
  ): Promise<ClaimedPayment>
  /** Stores a keyless call and makes its payment due, in one commit. */
  deliver(delivery: FinishedCallsOfPayment): Promise<void>
  /**
   * Stores a withheld answer, settles its payment, and resolves to the transaction: from then on the call exists.
   * Rejects if the payment is lost or its outcome is not known yet.
   */
  deliverAfterSettlement(
    delivery: FinishedCallsOfPayment,
    offer: PaymentOffer | null,
  ): Promise<string | null>
  /**
   * Ends a failed call: the payment is free again, or it has settled and stays valid for this
   * request. Resolves to which of them.
   */
  release(
    ref: ExternalCallPaymentRef,
    callId: string,
    row: ((at: number) => CallRow) | null,
  ): Promise<'free' | 'kept'>
  /** Makes the payer absorb the outcome that an agent's commit has left in its inbox. */
  notifyPayer(ref: ExternalCallPaymentRef): Promise<void>
  /**
   * Fails the call unless the agent's commits have reported another outcome: the agent holds
   * nothing for it.
   */
  abandon(ref: ExternalCallPaymentRef, callId: string): Promise<void>
  /** The payment headers of a reply, in the payment's dialect. */
  replyHeaders(
    payment: NormalizedPayment,
    ref: ExternalCallPaymentRef,
    tx: string | null,
  ): Record<string, string>
  settlementUrl(ref: ExternalCallPaymentRef): string
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
