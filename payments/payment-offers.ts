import { mppChallengeHeader } from '../chain/mpp/mpp-challenge.ts'
import { findPaymentCredential, PaymentProblem } from '../chain/onchain-payment.ts'
import type { PaymentOffer, OnchainPayment, PresentedPayment } from '../chain/onchain-payment.ts'
import { readRequestPayment } from '../chain/x402/read-request-payment.ts'
import { findPresentedPayment } from '../chain/x402/presented-payment.ts'
import {
  encodePaymentRequiredHeader,
  paymentResponseHeaders,
  toV1PaymentRequiredBody,
} from '../chain/x402/payment-headers.ts'
import { createPaymentOffer } from '../chain/x402/payment-requirements.ts'
import { createChallengeNonce } from '../chain/x402/challenge-nonce.ts'
import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import type { PaymentRef } from './call-admission-request.ts'
import { isPaymentChain, type PaymentChains } from './payment-chains.ts'
import type { PaymentRequestContext, PayableItem, PaymentService } from './payment-service-types.ts'
import { toPaymentRejectionError } from './payment-required-error.ts'

/** Renders payment offers, challenges and receipts, and reads payments, in every dialect. */

export interface PaymentOffersDeps {
  readonly chains: Pick<PaymentChains, 'rails' | 'assets'>
  readonly clock: Clock
  readonly publicUrl: string
}

interface PaymentOffers extends Pick<
  PaymentService,
  'offer' | 'hasPayment' | 'read' | 'challenge' | 'replyHeaders' | 'settlementUrl'
> {
  /** The payment a request presents, whether or not it fits the current offer. */
  presented(request: Pick<PaymentRequestContext, 'headers'>): Promise<PresentedPayment | null>
}

/** Creates the reader and renderer of payment dialects. */
export function createPaymentOffers({
  chains,
  clock,
  publicUrl,
}: PaymentOffersDeps): PaymentOffers {
  const settlementUrl = ({ settlement }: Pick<PaymentRef, 'settlement'>) =>
    `${publicUrl}/api/x402/settlements/${settlement}`

  function offer(path: string, item: PayableItem): PaymentOffer | null {
    const resource = { url: `${publicUrl}${path}`, mimeType: 'application/json' }
    const made = createPaymentOffer(chains.rails(), { ...item, ...resource })
    return made.requirements.length === 0 && made.mpp === null ? null : made
  }

  async function read(
    { headers, body }: PaymentRequestContext,
    offered: PaymentOffer | null,
  ): Promise<OnchainPayment> {
    if (offered === null) throw new ServiceError('rail_disabled')
    try {
      const payment = await readRequestPayment(headers, offered, chains.rails(), clock.now(), body)
      if (payment !== null) return payment
    } catch (error) {
      throw error instanceof PaymentProblem ? toPaymentRejectionError(error, offered) : error
    }
    throw new ServiceError('payment_malformed')
  }

  async function presented({
    headers,
  }: Pick<PaymentRequestContext, 'headers'>): Promise<PresentedPayment | null> {
    const shown = await findPresentedPayment(headers, chains.assets)
    return shown !== null && isPaymentChain(shown.chain) ? shown : null
  }

  return {
    offer,
    read,
    presented,
    settlementUrl,
    hasPayment: ({ headers }) => findPaymentCredential(headers) !== null,
    replyHeaders: (payment, { settlement }, tx) =>
      paymentResponseHeaders(payment, {
        success: true,
        transaction: tx ?? '',
        settlementId: settlement,
        settlementUrl: settlementUrl({ settlement }),
        at: clock.now(),
      }),
    challenge(offered, body, reason) {
      const now = clock.now()
      const ticket = createChallengeNonce(now)
      const mpp = mppChallengeHeader(offered, { body, now, ticket })
      const [, challengeId] = /id="([^"]+)"/.exec(mpp ?? '') ?? []
      const payable = offered.requirements.length > 0
      const v2 = payable ? encodePaymentRequiredHeader(offered, reason, ticket) : null
      const v1 = toV1PaymentRequiredBody(offered)
      return {
        headers: {
          ...(v2 === null ? {} : { 'payment-required': v2 }),
          ...(mpp === null ? {} : { 'www-authenticate': mpp }),
        },
        // Clients of x402 cannot read an empty list.
        body: {
          ...(v1.accepts.length === 0 ? {} : v1),
          ...(challengeId === undefined ? {} : { challengeId }),
        },
      }
    },
  }
}
