import { ServiceError } from '../core/errors.ts'
import { ZERO_MICROS } from '../core/money.ts'
import type { CallRow } from '../core/aggregate-commit-row-types.ts'
import type { ClaimedPayment } from '../payments/payment-service-types.ts'
import type { AdmittedCall } from './admitted-call.ts'
import { callPaymentOffer, isAnswerHeldUntilSettlement } from './parse-and-price-call.ts'
import type { CallDeps } from './call-request-and-reply-types.ts'
import type { ToolRunResult } from './run-tool.ts'
import { chargeableCost } from './tool-context.ts'

/** Delivers the call of a caller without a key: stored with its payment, or kept until the payment has settled. */

/** An answer exists that its caller does not get: its payment is lost, or it is not known yet what became of it. */
export class AnswerWithheldForPaymentError extends Error {
  readonly reason: ServiceError
  constructor(reason: ServiceError) {
    super('the payment of an answer has not settled', { cause: reason })
    this.reason = reason
  }
}

/** Stores the call of an anonymous caller with its payment; resolves to the transaction, if it is known. */
export async function storeAnonymousPaidCall(
  parts: CallDeps,
  { callId, amount, plan }: AdmittedCall,
  { ref, tx }: ClaimedPayment,
  { traces }: ToolRunResult,
  row: (at: number) => CallRow,
): Promise<string | null> {
  const { paying } = parts
  const { rows, events } = traces
  const shares = traces.shares.map((share) => ({ ...share, callId }))
  // A waived call costs nothing: its payment is released.
  if (chargeableCost(traces, amount) === ZERO_MICROS)
    return paying.release(ref, callId, row).then(() => null)
  const delivery = { ref, callId, calls: [row], rows, events, shares }
  if (!isAnswerHeldUntilSettlement(plan)) return paying.deliver(delivery).then(() => tx)
  return paying
    .deliverAfterSettlement(delivery, callPaymentOffer(parts, plan))
    .catch((error: unknown) => {
      throw isSettlementFailure(error) ? new AnswerWithheldForPaymentError(error) : error
    })
}

/** Errors after the answer was stored; others leave the call to fail. */
function isSettlementFailure(error: unknown): error is ServiceError {
  if (!(error instanceof ServiceError)) return false
  const { code, details } = error
  if (code !== 'settlement_unknown' && details['reason'] !== 'settlement_failed') return false
  if (code !== 'settlement_unknown')
    details['detail'] =
      'The payment failed after the tool had answered. The answer is not released, nothing was charged, and this payment cannot be used again.'
  return true
}
