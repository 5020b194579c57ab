import type {
  PaymentOffer,
  NormalizedPayment,
  PaymentRequirement,
} from '../onchain-payment-types.ts'
import { findV1NetworkName } from './x402-network-names.ts'

/** Payment headers and 402 bodies of x402, and MPP receipts. */

/** Standard padded base64: the SDK rejects every other alphabet. */
const base64 = (value: unknown) => Buffer.from(JSON.stringify(value), 'utf8').toString('base64')

/**
 * An offer as the object of version 2; with a ticket, which a payment returns
 * (`challenge-nonces-and-payment-ids.ts`).
 */
function paymentRequired(
  { requirements, resource }: PaymentOffer,
  error?: string,
  ticket?: string,
) {
  const ticketed = (one: PaymentRequirement) => ({ ...one, extra: { ...one.extra, ticket } })
  return {
    x402Version: 2,
    ...(error === undefined ? {} : { error }),
    resource,
    accepts: ticket === undefined ? requirements : requirements.map(ticketed),
    extensions: {},
  }
}

/** The value of `PAYMENT-REQUIRED`; `error` is why the previous payment was rejected. */
export const encodePaymentRequiredHeader = (
  offer: PaymentOffer,
  error?: string,
  ticket?: string,
): string => base64(paymentRequired(offer, error, ticket))

/** Networks that a version 1 client understands; any other entry makes it fail. */
const V1_NETWORKS: readonly (string | null)[] = ['base', 'base-sepolia', 'solana']

/** The members of a 402 body that version 1 clients read. */
export function toV1PaymentRequiredBody({ requirements, resource }: PaymentOffer) {
  const entries = requirements.map((requirement) => v1Entry(requirement, resource))
  return {
    x402Version: 1,
    accepts: entries.filter(({ network }) => V1_NETWORKS.includes(network)),
  } as const
}

function v1Entry(requirement: PaymentRequirement, resource: PaymentOffer['resource']) {
  const { scheme, network, amount, payTo, maxTimeoutSeconds, asset, extra } = requirement
  return {
    scheme,
    network: findV1NetworkName(network),
    maxAmountRequired: amount,
    resource: resource.url,
    description: resource.description,
    mimeType: resource.mimeType,
    payTo,
    maxTimeoutSeconds,
    asset,
    extra,
  }
}

/** The state of a payment when the reply is sent. */
export interface PaymentSettlementStateForReply {
  readonly success: boolean
  /** Hash or signature on the chain; empty while the settlement is open. */
  readonly transaction: string
  readonly errorReason?: string
  readonly settlementId: string
  /** Where to query the outcome. */
  readonly settlementUrl: string
  /** Milliseconds since the epoch; the time of an MPP receipt. */
  readonly at: number
}

/** The settlement as x402 formats it, with our id and URL. */
function paymentResponse(payment: NormalizedPayment, settlement: PaymentSettlementStateForReply) {
  const { success, transaction, errorReason, settlementId, settlementUrl } = settlement
  return {
    success,
    transaction,
    network:
      payment.wire === 'v1' ? (findV1NetworkName(payment.chain) ?? payment.chain) : payment.chain,
    payer: payment.from,
    amount: payment.amount.toString(),
    ...(errorReason === undefined ? {} : { errorReason }),
    settlement_id: settlementId,
    settlement_url: settlementUrl,
  }
}

/** The reply headers for a payment, in its own dialect; an MPP receipt only after success. */
export function paymentResponseHeaders(
  payment: NormalizedPayment,
  settlement: PaymentSettlementStateForReply,
): Record<string, string> {
  switch (payment.wire) {
    case 'short':
    case 'v2':
      return { 'PAYMENT-RESPONSE': base64(paymentResponse(payment, settlement)) }
    case 'v1':
      return { 'X-PAYMENT-RESPONSE': base64(paymentResponse(payment, settlement)) }
    case 'mpp':
      return settlement.success ? { 'Payment-Receipt': mppReceiptHeader(settlement) } : {}
  }
}

function mppReceiptHeader({ transaction, at }: PaymentSettlementStateForReply): string {
  const timestamp = new Date(at).toISOString()
  const receipt = { method: 'tempo', status: 'success', timestamp, reference: transaction }
  return Buffer.from(JSON.stringify(receipt), 'utf8').toString('base64url')
}
