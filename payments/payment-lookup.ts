import type { ActorSystem } from '../actors/aggregate-command-types.ts'
import {
  hashPaymentCredential,
  type PaymentOffer,
  type PresentedPayment,
} from '../chain/onchain-payment-types.ts'
import { ServiceError, type ErrorDetails } from '../core/errors.ts'
import type { CallLogStore } from '../persistence/calls/call-log-store.ts'
import type { ExternalCallPaymentRef } from './agent-call-admission-request-types.ts'
import {
  settlementLoadOptions,
  toPayerAggregateId,
  toSettlementId,
} from './commands/payment-claim-commands.ts'
import {
  lookUpPaymentClaimCommand,
  type PaymentLookupResult,
} from './commands/payment-lookup-commands.ts'
import { fingerprintPaymentRequester } from './payment-requester-fingerprint.ts'
import { toPaymentChainName } from './payment-chains.ts'
import { settlementFailedForGoodError, settlementUnknownError } from './payment-required-error.ts'
import type { EarlierPaidReply, PaymentRequestContext } from './payment-service-types.ts'

/** Looks up what a payment has bought before; a signature is not verified for it. */

/** A payment, verified or not, and the request that brought it. */
export interface PresentedPaymentAndRequest {
  readonly payment: PresentedPayment
  readonly request: PaymentRequestContext
  readonly agentId: string | null
}

export interface EarlierPaymentUseLookup {
  /** The earlier claim of the payment; null if it is unclaimed. */
  find(asked: PresentedPaymentAndRequest): Promise<PaymentLookupResult | null>
  /** What the payment has bought before; null if it is unused, or settled and unused. */
  findEarlierReply(
    asked: PresentedPaymentAndRequest,
    offer: PaymentOffer | null,
  ): Promise<EarlierPaidReply | null>
  /** The reply of a claim that `find` returned. Throws unless the request may repeat it. */
  repeatReply(
    payment: PresentedPayment,
    seen: PaymentLookupResult,
    offer: PaymentOffer | null,
  ): Promise<EarlierPaidReply | null>
  /** Error members that name the settlement. */
  detailsOf(ref: ExternalCallPaymentRef): ErrorDetails
}

export interface EarlierPaymentUseLookupDeps {
  readonly actors: ActorSystem
  readonly callLog: Pick<CallLogStore, 'answerTo'>
  readonly settlementUrl: (ref: ExternalCallPaymentRef) => string
}

export const toPaymentRef = (payment: PresentedPayment): ExternalCallPaymentRef => ({
  payer: toPayerAggregateId(payment),
  settlement: toSettlementId(payment),
  chain: toPaymentChainName(payment.chain),
})

/** Creates the lookup of earlier claims. */
export function createEarlierPaymentUseLookup({
  actors,
  callLog,
  settlementUrl,
}: EarlierPaymentUseLookupDeps): EarlierPaymentUseLookup {
  const detailsOf = (ref: ExternalCallPaymentRef): ErrorDetails => ({
    settlement_id: ref.settlement,
    settlement_url: settlementUrl(ref),
  })

  function find({ payment, request, agentId }: PresentedPaymentAndRequest) {
    const { payer, settlement } = toPaymentRef(payment)
    const { fingerprint } = request
    const credential = hashPaymentCredential(payment)
    const marks = fingerprintPaymentRequester(request, credential, null)
    const lookup = { settlement, fingerprint, credential, marks, agentId }
    return actors.ask(payer, lookUpPaymentClaimCommand, lookup, settlementLoadOptions(settlement))
  }

  async function repeatReply(
    payment: PresentedPayment,
    seen: PaymentLookupResult,
    offer: PaymentOffer | null,
  ) {
    const ref = toPaymentRef(payment)
    const at = detailsOf(ref)
    const { money, delivery } = seen
    if (money === 'lost' && delivery !== 'delivered') throw settlementFailedForGoodError(at, offer)
    if (!seen.sameRequest) throw alreadyUsedError(at)
    if (delivery === 'failed')
      throw new ServiceError('payment_credited', { ...at, call_id: seen.callId })
    if (delivery === 'delivered') return storedReply(ref, seen)
    if (money === 'settled') return null
    if (money === 'claimed')
      throw new ServiceError('payment_in_progress', { ...at, retry_after: 1 })
    throw settlementUnknownError(at)
  }

  async function storedReply(
    ref: ExternalCallPaymentRef,
    { callId, agentId, money, txHash }: PaymentLookupResult,
  ) {
    const stored = await callLog.answerTo(agentId ?? ref.payer, callId)
    if (stored !== null) return { callId, ...stored, tx: money === 'settled' ? txHash : null }
    const detail = 'Its reply is no longer stored.'
    throw new ServiceError('payment_already_used', { ...detailsOf(ref), call_id: callId, detail })
  }

  return {
    find,
    repeatReply,
    detailsOf,
    async findEarlierReply(asked, offer) {
      const seen = await find(asked)
      return seen === null ? null : repeatReply(asked.payment, seen, offer)
    },
  }
}

/** One text for all causes: finding a payment on a chain must reveal nothing about its request. */
const alreadyUsedError = (at: ErrorDetails) =>
  new ServiceError('payment_already_used', { ...at, detail: REPLAY_DETAIL })
const REPLAY_DETAIL =
  'This payment has been used. Its reply is repeated only for the same request from the same sender: with the same API key, Idempotency-Key, `accepted` of its 402, or address.'
