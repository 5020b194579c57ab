import { createHash } from 'node:crypto'
import { parseWithBigints, stringifyWithBigints } from '../core/bigint-json.ts'
import type { Micros } from '../core/money.ts'

export type HexString = `0x${string}`

/** The dialect a payment came in; it chooses the reply header and nothing else. */
export type PaymentDialect = 'short' | 'v1' | 'v2' | 'mpp'
export type PaymentRail = 'eip3009' | 'x402' | 'mpp'

/** What shows that the payer agreed, and what settles the payment. */
export type PayerProof =
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
      /** Base64 of a transaction that the payer has signed and the facilitator has not. */
      readonly transaction: string
      /** What the facilitator is to hold it against: ours, never the client's copy. */
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

/** The part of a proof that the payer made: what shows it again is the same credential. */
export type PresentedProof =
  | { readonly kind: 'eip3009' | 'permit2'; readonly signature: HexString }
  | { readonly kind: 'solana'; readonly transaction: string }
  | { readonly kind: 'mpp'; readonly raw: HexString }

/** Which payment a header is about, whatever is for sale: enough to find what became of it. */
export interface PresentedPayment extends Pick<
  OnchainPayment,
  'rail' | 'wire' | 'chain' | 'asset' | 'from' | 'nonce'
> {
  readonly proof: PresentedProof
}

/** A payment in the one form everything behind the codecs works with. */
export interface OnchainPayment {
  readonly rail: PaymentRail
  readonly wire: PaymentDialect
  /** CAIP-2. */
  readonly chain: string
  /** EVM addresses are in lower case; those of Solana are as they are spelled. */
  readonly asset: string
  readonly from: string
  readonly to: string
  /** Atomic units of the asset. */
  readonly amount: bigint
  /** What the ledger books for it. */
  readonly price: Micros
  /** Seconds since the epoch: valid strictly between the two. */
  readonly validAfter: bigint
  readonly validBefore: bigint
  /** With chain, asset and payer the claim key; one spelling for one nonce. */
  readonly nonce: string
  /** The id of the extension `payment-identifier`, when the client sent one. */
  readonly identifier: string | null
  readonly proof: PayerProof
}

/** One way to pay in the words of x402 version 2. */
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

/** What an MPP challenge asks for. */
export interface MppOffer {
  readonly realm: string
  readonly chainId: number
  /** Atomic units, decimal. */
  readonly amount: string
  readonly currency: string
  readonly recipient: string
  /** base64url HMAC-SHA256 under the secret all nodes share; a function, so that no log shows it. */
  readonly mac: (text: string) => string
}

export interface PaidResource {
  /** Absolute, from `PUBLIC_URL`. */
  readonly url: string
  readonly description: string
  readonly mimeType: string
}

/** What a request costs on every rail that is on; rendered as v2, v1 and MPP. */
export interface PaymentOffer {
  readonly resource: PaidResource
  readonly price: Micros
  /** In the order of preference. */
  readonly requirements: readonly PaymentRequirement[]
  readonly mpp: MppOffer | null
  /** How long the tool may run: an authorization has to outlive it. */
  readonly deadlineMs: number
}

/**
 * A payment that is not accepted: 400 cannot be read, 402 a new payment heals it, 412 Permit2 is not
 * approved. `reason` is the name that x402 or MPP has for it.
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

export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>

/** A credential as it came; `wire` is what its header suggests, the document decides. */
export interface PaymentCredential {
  readonly wire: 'v1' | 'v2' | 'mpp'
  readonly text: string
}

const PAYMENT_SCHEME = /^payment(?:\s+|$)(.*)$/i

/**
 * The credential among the headers of a request, whose names are in lower case: `payment-signature`,
 * else `x-payment`, else `Authorization: Payment`. Null when there is none.
 */
export function findPaymentCredential(headers: RequestHeaders): PaymentCredential | null {
  const v2 = textOf(headers['payment-signature'])
  if (v2 !== null) return { wire: 'v2', text: v2 }
  const v1 = textOf(headers['x-payment'])
  if (v1 !== null) return { wire: 'v1', text: v1 }
  const schemes = textOf(headers['authorization'])?.split(',') ?? []
  for (const scheme of schemes) {
    const [, text] = PAYMENT_SCHEME.exec(scheme.trim()) ?? []
    if (text !== undefined) return { wire: 'mpp', text: text.trim() }
  }
  return null
}

function textOf(value: string | readonly string[] | undefined): string | null {
  if (value === undefined) return null
  return typeof value === 'string' ? value.trim() : value.join(',').trim()
}

/**
 * The identity of a credential, hex: sha256 over the bytes the payer signed with, so that the same
 * signature in another dialect or spelling is the same credential.
 */
export function hashPaymentCredential({ proof }: Pick<PresentedPayment, 'proof'>): string {
  return createHash('sha256').update(signatureOf(proof)).digest('hex')
}

function signatureOf(proof: PresentedProof): Buffer {
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

/** A payment as it was claimed, shown again: in the dialect and by the bytes of now. */
export const withPresentedProof = (
  claimed: OnchainPayment,
  { rail, wire, proof }: PresentedPayment,
): OnchainPayment => ({
  ...claimed,
  rail,
  wire,
  proof: { ...claimed.proof, ...proof } as PayerProof,
})

/** A payment as text, for commands, rows and snapshots; `decodePayment` gives it back. */
export const encodePayment = (payment: OnchainPayment): string => stringifyWithBigints(payment)

export const decodePayment = (text: string): OnchainPayment =>
  parseWithBigints<OnchainPayment>(text)
