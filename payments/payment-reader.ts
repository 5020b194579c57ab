import {
  decodeStoredPayment,
  PaymentProblem,
  withNewlyPresentedPaymentProof,
  type NormalizedPayment,
  type PaymentOffer,
} from '../chain/onchain-payment-types.ts'
import { findPresentedPayment, readRequestPayment } from '../chain/read-request-payment.ts'
import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import type { SettlementQueries } from '../persistence/payments/settlement-queries.ts'
import { toSettlementId } from './commands/payment-claim-commands.ts'
import { isPaymentChain, type PaymentChains } from './payment-chains.ts'
import type { EarlierPaymentUseLookup } from './payment-lookup.ts'
import { toPaymentRejectionError } from './payment-required-error.ts'
import type { PaymentRequestContext, PaymentService } from './payment-service-types.ts'

/** Reads the payment of a request, and recognises a payment that was used before. */

export interface RequestPaymentReaderDeps {
  readonly chains: Pick<PaymentChains, 'rails' | 'assets'>
  readonly clock: Clock
  readonly lookup: Pick<EarlierPaymentUseLookup, 'find'>
  readonly settlements: Pick<SettlementQueries, 'proof'>
}

/** Creates the reader of payments. */
export function createRequestPaymentReader(
  parts: RequestPaymentReaderDeps,
): Pick<PaymentService, 'read' | 'findUsedPayment'> {
  const { chains, lookup, settlements } = parts

  /** A used payment is recognised by its nonce, whatever the current offer. */
  async function findUsedPayment(
    request: PaymentRequestContext,
  ): Promise<NormalizedPayment | null> {
    const { paymentHeader } = request
    if (paymentHeader === null) return null
    const presented = await findPresentedPayment(paymentHeader, chains.assets)
    if (presented === null || !isPaymentChain(presented.chain)) return null
    const seen = await lookup.find({ payment: presented, request, agentId: null })
    const proof = seen === null ? null : await settlements.proof(toSettlementId(presented))
    return proof === null
      ? null
      : withNewlyPresentedPaymentProof(decodeStoredPayment(proof.payment), presented)
  }

  return {
    findUsedPayment,
    async read(request, offer) {
      try {
        return await readOfferedPayment(parts, request, offer)
      } catch (error) {
        const used = error instanceof ServiceError ? await findUsedPayment(request) : null
        if (used === null) throw error
        return used
      }
    },
  }
}

async function readOfferedPayment(
  { chains, clock }: RequestPaymentReaderDeps,
  { paymentHeader, body }: PaymentRequestContext,
  offer: PaymentOffer | null,
): Promise<NormalizedPayment> {
  if (offer === null) throw new ServiceError('rail_disabled')
  if (paymentHeader === null) throw new ServiceError('payment_malformed')
  try {
    return await readRequestPayment(paymentHeader, offer, chains.rails(), clock.now(), body)
  } catch (error) {
    throw error instanceof PaymentProblem ? toPaymentRejectionError(error, offer) : error
  }
}
