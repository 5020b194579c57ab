import { challengeHeader } from '../chain/mpp/challenge.ts'
import { credentialOf, PaymentProblem, type Offer, type Payment } from '../chain/payment.ts'
import { readPayment } from '../chain/x402/intake.ts'
import { paymentRequiredHeader, responseHeaders, v1Body } from '../chain/x402/render.ts'
import { offerOf } from '../chain/x402/requirements.ts'
import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import type { PaymentRef } from './admission.ts'
import type { Chains } from './chains.ts'
import type { Door, Item, Paying } from './paying.ts'
import { refusedPayment } from './unpaid.ts'

export interface OfferParts {
  readonly chains: Pick<Chains, 'rails'>
  readonly clock: Clock
  readonly publicUrl: string
}

interface Offers extends Pick<
  Paying,
  'offer' | 'brings' | 'read' | 'challenge' | 'replyHeaders' | 'settlementUrl'
> {
  /** The payment of a request whose time may be over; null when more is wrong with it. */
  readLate(door: Door, offer: Offer | null): Promise<Payment | null>
}

/** What a request costs, what it brought, and what is said about it: every dialect in, every one out. */
export function offers({ chains, clock, publicUrl }: OfferParts): Offers {
  const settlementUrl = ({ settlement }: Pick<PaymentRef, 'settlement'>) =>
    `${publicUrl}/api/x402/settlements/${settlement}`

  function offer(path: string, item: Item): Offer | null {
    const resource = { url: `${publicUrl}${path}`, mimeType: 'application/json' }
    const made = offerOf(chains.rails(), { ...item, ...resource })
    return made.requirements.length === 0 && made.mpp === null ? null : made
  }

  const decode = ({ headers, body }: Door, offered: Offer, now: number | null) =>
    readPayment(headers, offered, chains.rails(), now, body)

  async function read(door: Door, offered: Offer | null): Promise<Payment> {
    if (offered === null) throw new ServiceError('rail_disabled')
    try {
      const payment = await decode(door, offered, clock.now())
      if (payment !== null) return payment
    } catch (error) {
      throw error instanceof PaymentProblem ? refusedPayment(error, offered) : error
    }
    throw new ServiceError('payment_malformed')
  }

  const readLate = async (door: Door, offered: Offer | null): Promise<Payment | null> =>
    offered === null ? null : decode(door, offered, null).catch(() => null)

  return {
    offer,
    read,
    readLate,
    settlementUrl,
    brings: ({ headers }) => credentialOf(headers) !== null,
    replyHeaders: (payment, { settlement }, tx) =>
      responseHeaders(payment, {
        success: true,
        transaction: tx ?? '',
        settlementId: settlement,
        settlementUrl: settlementUrl({ settlement }),
        at: clock.now(),
      }),
    challenge(offered, body, reason) {
      const mpp = challengeHeader(offered, { body, now: clock.now() })
      const [, challengeId] = /id="([^"]+)"/.exec(mpp ?? '') ?? []
      return {
        headers: {
          'payment-required': paymentRequiredHeader(offered, reason),
          ...(mpp === null ? {} : { 'www-authenticate': mpp }),
        },
        body: { ...v1Body(offered), ...(challengeId === undefined ? {} : { challengeId }) },
      }
    },
  }
}
