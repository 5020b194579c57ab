import { mppChallengeHeader } from '../chain/mpp/mpp-challenge.ts'
import type { PaymentOffer } from '../chain/onchain-payment-types.ts'
import {
  encodePaymentRequiredHeader,
  paymentResponseHeaders,
  toV1PaymentRequiredBody,
} from '../chain/x402/payment-response-headers-and-402-bodies.ts'
import { createPaymentOffer } from '../chain/x402/payment-requirements.ts'
import { createChallengeNonce } from '../chain/x402/challenge-nonces-and-payment-ids.ts'
import type { Clock } from '../core/clock.ts'
import type { ExternalCallPaymentRef } from './agent-call-admission-request-types.ts'
import type { PaymentChains } from './payment-chains.ts'
import type { ItemForSale, PaymentService } from './payment-service-types.ts'

/** Renders payment offers, challenges and receipts, in every dialect. */

export interface PaymentOfferRendererDeps {
  readonly chains: Pick<PaymentChains, 'rails'>
  readonly clock: Clock
  readonly publicUrl: string
}

/** Creates the renderer of payment dialects. */
export function createPaymentOfferRenderer({
  chains,
  clock,
  publicUrl,
}: PaymentOfferRendererDeps): Pick<
  PaymentService,
  'offer' | 'challenge' | 'replyHeaders' | 'settlementUrl'
> {
  const settlementUrl = ({ settlement }: Pick<ExternalCallPaymentRef, 'settlement'>) =>
    `${publicUrl}/api/x402/settlements/${settlement}`

  function offer(path: string, item: ItemForSale): PaymentOffer | null {
    const url = path.startsWith('/') ? `${publicUrl}${path}` : path
    const resource = { url, mimeType: 'application/json' }
    const made = createPaymentOffer(chains.rails(), { ...item, ...resource })
    return made.requirements.length === 0 && made.mpp === null ? null : made
  }

  return {
    offer,
    settlementUrl,
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

/** What a payment on one network has to be: a client compares a 402 with it before it signs. */
export interface PaymentTerms {
  readonly protocol: 'x402' | 'mpp'
  /** CAIP-2. */
  readonly network: string
  readonly asset: string
  readonly pay_to: string
  /** Atomic units of the asset, decimal. */
  readonly amount: string
}

/** Lists the terms of an offer, one entry per network, in its order. */
export function listPaymentTerms(offer: PaymentOffer | null): PaymentTerms[] {
  if (offer === null) return []
  const { requirements, mpp } = offer
  const terms = requirements.map(({ network, asset, payTo, amount }) => ({
    protocol: 'x402' as const,
    network,
    asset,
    pay_to: payTo,
    amount,
  }))
  if (mpp === null) return terms
  const { chainId, currency: asset, recipient, amount } = mpp
  return [
    ...terms,
    { protocol: 'mpp', network: `eip155:${chainId}`, asset, pay_to: recipient, amount },
  ]
}
