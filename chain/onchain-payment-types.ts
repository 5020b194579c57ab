import { createHash } from 'node:crypto'
import { parseWithBigints, stringifyWithBigints } from '../core/json/bigint.ts'
import type { Micros } from '../core/money.ts'

/** The normal form of a payment, shared by all dialects. */

export type HexString = `0x${string}`

/** The dialect of a payment; it only determines the reply header. */
export type PaymentDialect = 'short' | 'v1' | 'v2' | 'mpp'
export type PaymentRail = 'eip3009' | 'x402' | 'mpp'

/** The payer's proof of consent, which also settles the payment. */
export type PayerSignedAuthorization =
  | { readonly kind: 'eip3009'; readonly signature: HexString }
  | {
      readonly kind: 'permit2'
      readonly signature: HexString
      /** The contract that may move the tokens: the x402 exact proxy. */
      readonly spender: string
      readonly deadline: bigint
    }
  | {
      readonly kind: 'solana'
      /** Base64 of a transaction that is signed by the payer but not by the facilitator. */
      readonly transaction: string
      /** What the facilitator checks it against: our requirement, never the client's copy. */
      readonly requirement: PaymentRequirement
    }
  | {
      readonly kind: 'mpp'
      /** The payer's own signed transaction, ready to be broadcast. */
      readonly raw: HexString
      readonly challengeId: string
      /** Of the transaction, known before it is broadcast. */
      readonly hash: HexString
    }

/** The payer's part of a proof: equal parts are the same credential. */
export type PayerPaymentProof =
  | { readonly kind: 'eip3009' | 'permit2'; readonly signature: HexString }
  | { readonly kind: 'solana'; readonly transaction: string }
  | { readonly kind: 'mpp'; readonly raw: HexString }

/** The payment a header refers to, independent of any offer: enough to look up its state. */
export interface PresentedPayment extends Pick<
  NormalizedPayment,
  'rail' | 'wire' | 'chain' | 'asset' | 'from' | 'nonce'
> {
  readonly proof: PayerPaymentProof
}

/** A payment in normal form, independent of its dialect. */
export interface NormalizedPayment {
  readonly rail: PaymentRail
  readonly wire: PaymentDialect
  /** CAIP-2. */
  readonly chain: string
  /** EVM addresses in lower case; Solana addresses as spelled. */
  readonly asset: string
  readonly from: string
  readonly to: string
  /** Atomic units of the asset. */
  readonly amount: bigint
  /** The amount the ledger books for it. */
  readonly price: Micros
  /** Seconds since the epoch: valid strictly between the two. */
  readonly validAfter: bigint
  readonly validBefore: bigint
  /** With chain, asset and payer the claim key; normalized. */
  readonly nonce: string
  /** The id of the extension `payment-identifier`, if the client sent one. */
  readonly identifier: string | null
  readonly proof: PayerSignedAuthorization
}

/** One way to pay, in x402 version 2. */
export interface PaymentRequirement {
  readonly scheme: 'exact'
  /** CAIP-2. */
  readonly network: string
  /** Atomic units, decimal. */
  readonly amount: string
  /** EVM addresses in lower case. */
  readonly asset: string
  readonly payTo: string
  readonly maxTimeoutSeconds: number
  readonly extra: Readonly<Record<string, string | number>>
}

/** The terms of an MPP challenge. */
export interface MppOffer {
  readonly realm: string
  readonly chainId: number
  /** Atomic units, decimal. */
  readonly amount: string
  readonly currency: string
  readonly recipient: string
  /**
   * base64url HMAC-SHA256 under the secret all nodes share; a function, so that logs cannot show
   * it.
   */
  readonly mac: (text: string) => string
}

export interface PaidResource {
  /** Absolute, from `PUBLIC_URL`. */
  readonly url: string
  readonly description: string
  readonly mimeType: string
}

/** The price of a request on every rail that is on; rendered as v2, v1 and MPP. */
export interface PaymentOffer {
  readonly resource: PaidResource
  readonly price: Micros
  /** In the order of preference. */
  readonly requirements: readonly PaymentRequirement[]
  readonly mpp: MppOffer | null
  /** How long the tool may run: an authorization has to outlive it. */
  readonly deadlineMs: number
  /** It settles when the tool has answered. */
  readonly settlesAfterAnswer?: boolean
}

/**
 * A rejected payment: 400 malformed, 402 needs a new payment, 412 needs a Permit2 approval.
 * `reason` is the x402 or MPP name of the problem.
 */
export class PaymentProblem extends Error {
  readonly status: 400 | 402 | 412
  readonly reason: string
  readonly detail: string
  constructor(status: 400 | 402 | 412, reason: string, detail: string) {
    super(`${reason}: ${detail}`)
    this.name = 'PaymentProblem'
    this.status = status
    this.reason = reason
    this.detail = detail
  }
}

/**
 * The identity of a credential: hex sha256 over the payer's signed bytes, so that the same
 * signature in another dialect or spelling is the same credential.
 */
export function hashPaymentCredential({ proof }: Pick<PresentedPayment, 'proof'>): string {
  return createHash('sha256').update(signatureOf(proof)).digest('hex')
}

function signatureOf(proof: PayerPaymentProof): Buffer {
  switch (proof.kind) {
    case 'eip3009':
    case 'permit2':
      return Buffer.from(proof.signature.slice(2), 'hex')
    case 'solana':
      return Buffer.from(proof.transaction, 'base64')
    case 'mpp':
      return Buffer.from(proof.raw.slice(2), 'hex')
  }
}

/** A claimed payment presented again: with the dialect and bytes of the new request. */
export const withNewlyPresentedPaymentProof = (
  claimed: NormalizedPayment,
  { rail, wire, proof }: PresentedPayment,
): NormalizedPayment => ({
  ...claimed,
  rail,
  wire,
  proof: { ...claimed.proof, ...proof } as PayerSignedAuthorization,
})

/** A payment as text, for commands, rows and snapshots; `decodeStoredPayment` reverses it. */
export const encodePaymentForStorage = (payment: NormalizedPayment): string =>
  stringifyWithBigints(payment)

export const decodeStoredPayment = (text: string): NormalizedPayment =>
  parseWithBigints<NormalizedPayment>(text)
