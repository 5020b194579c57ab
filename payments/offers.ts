import { challengeHeader } from '../chain/mpp/challenge.ts'
import { credentialOf, PaymentProblem } from '../chain/payment.ts'
import type { Offer, Payment, Presented } from '../chain/payment.ts'
import { readPayment } from '../chain/x402/intake.ts'
import { presentedIn } from '../chain/x402/presented.ts'
import { paymentRequiredHeader, responseHeaders, v1Body } from '../chain/x402/render.ts'
import { offerOf } from '../chain/x402/requirements.ts'
import { newTicket } from '../chain/x402/ticket.ts'
import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import type { PaymentRef } from './admission.ts'
import { isOurChain, type Chains } from './chains.ts'
import type { Door, Item, Paying } from './paying.ts'
import { refusedPayment } from './unpaid.ts'

export interface OfferParts {
  readonly chains: Pick<Chains, 'rails' | 'assets'>
  readonly clock: Clock
  readonly publicUrl: string
}

interface Offers extends Pick<
  Paying,
  'offer' | 'brings' | 'read' | 'challenge' | 'replyHeaders' | 'settlementUrl'
> {
  /** Which payment a request shows, whether or not it fits what is offered now. */
  presented(door: Pick<Door, 'headers'>): Promise<Presented | null>
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

  async function read({ headers, body }: Door, offered: Offer | null): Promise<Payment> {
    if (offered === null) throw new ServiceError('rail_disabled')
    try {
      const payment = await readPayment(headers, offered, chains.rails(), clock.now(), body)
      if (payment !== null) return payment
    } catch (error) {
      throw error instanceof PaymentProblem ? refusedPayment(error, offered) : error
    }
    throw new ServiceError('payment_malformed')
  }

  async function presented({ headers }: Pick<Door, 'headers'>): Promise<Presented | null> {
    const shown = await presentedIn(headers, chains.assets)
    return shown !== null && isOurChain(shown.chain) ? shown : null
  }

  return {
    offer,
    read,
    presented,
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
      const now = clock.now()
      const ticket = newTicket(now)
      const mpp = challengeHeader(offered, { body, now, ticket })
      const [, challengeId] = /id="([^"]+)"/.exec(mpp ?? '') ?? []
      const payable = offered.requirements.length > 0
      const v2 = payable ? paymentRequiredHeader(offered, reason, ticket) : null
      const v1 = v1Body(offered)
      return {
        headers: {
          ...(v2 === null ? {} : { 'payment-required': v2 }),
          ...(mpp === null ? {} : { 'www-authenticate': mpp }),
        },
        // An empty list is none that a client of x402 can read.
        body: {
          ...(v1.accepts.length === 0 ? {} : v1),
          ...(challengeId === undefined ? {} : { challengeId }),
        },
      }
    },
  }
}
