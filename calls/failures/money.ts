import type { ServiceError } from '../../core/errors.ts'
import { toUsdc } from '../../core/money.ts'
import type { ClaimedPayment } from '../../payments/payment-service-types.ts'
import type { AdmittedCall } from '../admitted-call.ts'
import type { CallDeps } from '../call-request-and-reply-types.ts'

/** What the error of a failed call says about money: it depends on the rail (decision 472). */

type Paying = Pick<CallDeps, 'paying'>

/** The sentence that errors end with while no payment has settled. */
const NOTHING_CHARGED = 'Nothing was charged.'
const CREDITED = 'The payment had settled before the call: it is in your credits.'
const RETAINED = 'The payment has settled: repeat the request with it instead of paying again.'

/** Fields about money: a payment that settled before the call is credited to its agent. */
export const toFailedCallMoney = (
  parts: Paying,
  { plan, paid }: Pick<AdmittedCall, 'plan' | 'paid'>,
): Record<string, unknown> =>
  isCredited(plan, paid)
    ? {
        refunded: false,
        cost_usdc: 0,
        credited_usdc: toUsdc(paid.payment.price),
        ...toSettlementFields(parts, paid.ref),
      }
    : { refunded: true, cost_usdc: 0 }

/** Completes the error of a failed call with what happened to its money. */
export function addFailedCallMoney(
  parts: Paying,
  ticket: Pick<AdmittedCall, 'plan' | 'paid'>,
  error: ServiceError,
): void {
  Object.assign(error.details, toFailedCallMoney(parts, ticket))
  if (isCredited(ticket.plan, ticket.paid)) replaceMoneySentence(error, CREDITED)
}

/** The payment of a caller without a key settled without delivery: the caller must not pay again. */
export function addRetainedPaymentDetails(
  parts: Paying,
  error: ServiceError,
  ref: ClaimedPayment['ref'],
): void {
  delete error.details['cost_usdc']
  replaceMoneySentence(error, RETAINED)
  Object.assign(error.details, {
    refunded: false,
    ...toSettlementFields(parts, ref),
    remedy: { action: 'repeat_with_the_same_payment' },
  })
}

const isCredited = (
  { request }: AdmittedCall['plan'],
  paid: ClaimedPayment | null,
): paid is ClaimedPayment => paid?.settled === true && request.caller.agentId !== null

const toSettlementFields = ({ paying }: Paying, ref: ClaimedPayment['ref']) => ({
  settlement_id: ref.settlement,
  settlement_url: paying.settlementUrl(ref),
})

/** Only the last one is ours: a builder may write the same words. */
function replaceMoneySentence({ details }: ServiceError, sentence: string): void {
  const { detail } = details
  if (detail === undefined) return
  const at = detail.lastIndexOf(NOTHING_CHARGED)
  if (at < 0) return
  const rest = detail.slice(at + NOTHING_CHARGED.length)
  Object.assign(details, { detail: `${detail.slice(0, at)}${sentence}${rest}` })
}
