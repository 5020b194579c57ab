import { presentedMppPayment, readMppPayment } from './mpp/read-mpp-payment.ts'
import {
  PaymentProblem,
  type NormalizedPayment,
  type PaymentOffer,
  type PresentedPayment,
} from './onchain-payment-types.ts'
import type { PaymentHeader } from './find-request-payment-header.ts'
import type { EnabledPaymentRails } from './x402/payment-requirements.ts'
import { presentedX402Payment, readX402Payment } from './x402/read-x402-payment.ts'

/** Reads the payment of a request from its decoded header, in any dialect. */

/**
 * Reads a payment and checks it against the price: scheme, network, asset, recipient, amount and
 * times; for MPP the challenge and the transaction, as far as no node is needed. Does not check
 * signatures, funds and nonces, except MPP's signature, which gives the payer. `now` in
 * milliseconds, `body` raw. Throws `PaymentProblem`.
 */
export async function readRequestPayment(
  header: PaymentHeader,
  offer: PaymentOffer,
  rails: EnabledPaymentRails,
  now: number,
  body: Uint8Array,
): Promise<NormalizedPayment> {
  return header.protocol === 'mpp'
    ? readMppPayment(header.document, offer, now, body)
    : readX402Payment(header.document, offer, rails, now)
}

/** By CAIP-2: the default asset of dialects that do not name one. */
export type DefaultPaymentAssetsByNetwork = ReadonlyMap<string, string>

/**
 * The payment a header presents, without comparing it to an offer or checking its validity. Null
 * if none can be read.
 */
export async function findPresentedPayment(
  header: PaymentHeader,
  assets: DefaultPaymentAssetsByNetwork,
): Promise<PresentedPayment | null> {
  if (header.document === null) return null
  try {
    return header.protocol === 'mpp'
      ? await presentedMppPayment(header.document)
      : presentedX402Payment(header.document, assets)
  } catch (error) {
    if (error instanceof PaymentProblem) return null
    throw error
  }
}
