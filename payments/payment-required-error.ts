import type { PaymentOffer, PaymentProblem } from '../chain/onchain-payment-types.ts'
import { ServiceError, type ErrorDetails, type ErrorCode } from '../core/errors.ts'

/** Errors of payments: a new payment is required, or the outcome of an earlier one is unknown. */

/** A 402 with an offer, which every entry point renders in all dialects. */
export class PaymentRequiredError extends ServiceError {
  readonly offer: PaymentOffer | null
  constructor(code: ErrorCode, details: ErrorDetails, offer: PaymentOffer | null) {
    super(code, details)
    this.offer = offer
  }
}

/** The error for a rejected payment, in the words of the protocol. */
export function toPaymentRejectionError(
  problem: PaymentProblem,
  offer: PaymentOffer | null,
): ServiceError {
  const { status, reason, detail } = problem
  if (status === 400) return new ServiceError('payment_malformed', { reason, detail })
  if (status === 412) return new ServiceError('permit2_allowance_required', { reason, detail })
  return new PaymentRequiredError('payment_invalid', { reason, detail }, offer)
}

/** Whether the payment settled is not known: the payer must not pay again yet. */
export const settlementUnknownError = (at: ErrorDetails) =>
  new ServiceError('settlement_unknown', { ...at, retry_after: 5 })

/** The settlement failed for good: the payer has to pay again. */
export const settlementFailedForGoodError = (at: ErrorDetails, offer: PaymentOffer | null) =>
  new PaymentRequiredError('payment_invalid', { ...at, reason: 'settlement_failed' }, offer)
