import { createHmac } from 'node:crypto'
import { LIMITS } from '../../core/limits.ts'
import type { Micros } from '../../core/money.ts'
import { PAYMENT_NETWORKS, toAtomicUnits } from '../payment-networks.ts'
import type {
  MppOffer,
  PaymentOffer,
  PaymentRequirement,
  PaidResource,
} from '../onchain-payment-types.ts'

/** A chain on which payers sign and our settler submits. */
export interface EvmPaymentRailSettings {
  readonly payTo: string
  readonly asset: string
  /** Of the token's EIP-712 domain. */
  readonly domain: { readonly name: string; readonly version: string }
  readonly chainId: number
}

export interface SolanaPaymentRecipientAndFeePayer {
  /** Base58. */
  readonly payTo: string
  /** The facilitator's account that pays the fees, from its `/supported`. */
  readonly feePayer: string
}

export interface TempoPaymentRailSettings {
  readonly recipient: string
  readonly currency: string
  /** Shared by all nodes: each verifies the challenges of the others. */
  readonly secret: string
  readonly realm: string
  readonly chainId: number
}

/** The rails that are on; null is off, and absent from every offer. */
export interface EnabledPaymentRails {
  readonly base: EvmPaymentRailSettings | null
  readonly bsc: EvmPaymentRailSettings | null
  readonly solana: SolanaPaymentRecipientAndFeePayer | null
  readonly tempo: TempoPaymentRailSettings | null
}

export const NO_PAYMENT_RAILS: EnabledPaymentRails = {
  base: null,
  bsc: null,
  solana: null,
  tempo: null,
}

export interface PaymentOfferInput extends PaidResource {
  readonly price: Micros
  readonly deadlineMs: number
  /** Leaves out what a facilitator settles before anything else. */
  readonly settlesAfterAnswer?: boolean
}

/** The price of a request on each rail that is on: Base, BSC, Solana, in this order, and MPP. */
export function createPaymentOffer(
  rails: EnabledPaymentRails,
  given: PaymentOfferInput,
): PaymentOffer {
  const { url, description, mimeType, price, deadlineMs, settlesAfterAnswer = false } = given
  return {
    resource: { url, description, mimeType },
    price,
    requirements: [
      ...(rails.base === null ? [] : [onBase(rails.base, price)]),
      ...(rails.bsc === null ? [] : [onBsc(rails.bsc, price)]),
      ...(rails.solana === null || settlesAfterAnswer ? [] : [onSolana(rails.solana, price)]),
    ],
    mpp: rails.tempo === null ? null : onTempo(rails.tempo, price),
    deadlineMs,
    settlesAfterAnswer,
  }
}

// clients throw on a wrong checksum; lower case has none
const plain = (address: string) => address.toLowerCase()

const terms = { scheme: 'exact', maxTimeoutSeconds: LIMITS.paymentSeconds } as const

function onBase(
  { payTo, asset, domain, chainId }: EvmPaymentRailSettings,
  price: Micros,
): PaymentRequirement {
  const amount = toAtomicUnits(price, PAYMENT_NETWORKS.base.decimals).toString()
  return {
    ...terms,
    network: `eip155:${chainId}`,
    amount,
    asset: plain(asset),
    payTo: plain(payTo),
    extra: { name: domain.name, version: domain.version },
  }
}

function onBsc(
  { payTo, asset, domain, chainId }: EvmPaymentRailSettings,
  price: Micros,
): PaymentRequirement {
  const { decimals } = PAYMENT_NETWORKS.bsc
  const { name, version } = domain
  return {
    ...terms,
    network: `eip155:${chainId}`,
    amount: toAtomicUnits(price, decimals).toString(),
    asset: plain(asset),
    payTo: plain(payTo),
    extra: { assetTransferMethod: 'permit2', name, version, decimals },
  }
}

function onSolana(
  { payTo, feePayer }: SolanaPaymentRecipientAndFeePayer,
  price: Micros,
): PaymentRequirement {
  const { caip2, asset, decimals } = PAYMENT_NETWORKS.solana
  const amount = toAtomicUnits(price, decimals).toString()
  return { ...terms, network: caip2, amount, asset, payTo, extra: { feePayer } }
}

function onTempo(rail: TempoPaymentRailSettings, price: Micros): MppOffer {
  const { realm, chainId, currency, recipient, secret } = rail
  const amount = toAtomicUnits(price, PAYMENT_NETWORKS.tempo.decimals).toString()
  const mac = (text: string) =>
    createHmac('sha256', secret).update(text, 'utf8').digest('base64url')
  return { realm, chainId, amount, currency: plain(currency), recipient: plain(recipient), mac }
}
