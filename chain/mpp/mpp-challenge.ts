import { createHash } from 'node:crypto'
import { LIMITS } from '../../core/limits.ts'
import { SECOND } from '../../core/clock.ts'
import type { MppOffer, PaymentOffer } from '../onchain-payment-types.ts'

/** The parts of a challenge that its id is computed from, in wire spelling. */
export interface MppChallenge {
  readonly realm: string
  readonly method: string
  readonly intent: string
  /** base64url of canonical JSON. */
  readonly request: string
  readonly expires?: string | undefined
  readonly digest?: string | undefined
  readonly opaque?: string | undefined
}

export const MPP_METHOD = 'tempo'
export const MPP_INTENT = 'charge'

/**
 * The value of `WWW-Authenticate` that requests an MPP charge; null if MPP is off. It binds price,
 * body and time, and is not stored: its id is a MAC under the secret all nodes share. A `ticket`
 * makes the id unique. `now` in milliseconds.
 */
export function mppChallengeHeader(
  offer: PaymentOffer,
  { body, now, ticket }: { readonly body: Uint8Array; readonly now: number; ticket?: string },
): string | null {
  const { mpp } = offer
  if (mpp === null) return null
  const challenge = {
    realm: mpp.realm,
    method: MPP_METHOD,
    intent: MPP_INTENT,
    request: encodeMppChargeRequest(mpp),
    digest: mppBodyDigest(body),
    expires: inSeconds(now + LIMITS.paymentSeconds * SECOND),
    ...(ticket === undefined ? {} : { opaque: encodeCanonicalJsonBase64Url({ ticket }) }),
  }
  const parts = Object.entries({ id: mppChallengeId(mpp, challenge), ...challenge })
  return `Payment ${parts.map(([name, value]) => `${name}=${quoted(value)}`).join(', ')}`
}

/** The id of a challenge: a MAC of its parts by position, with missing ones empty. */
export function mppChallengeId({ mac }: Pick<MppOffer, 'mac'>, challenge: MppChallenge): string {
  const { realm, method, intent, request, expires = '', digest = '', opaque = '' } = challenge
  return mac([realm, method, intent, request, expires, digest, opaque].join('|'))
}

/**
 * The requested charge. `pull`: the payer signs, we broadcast; a server of one mode has to say so.
 */
export function encodeMppChargeRequest({ amount, currency, recipient, chainId }: MppOffer): string {
  const methodDetails = { chainId, supportedModes: ['pull'] }
  return encodeCanonicalJsonBase64Url({ amount, currency, methodDetails, recipient })
}

/** Unpadded base64url of canonical JSON. */
export const encodeCanonicalJsonBase64Url = (request: unknown): string =>
  Buffer.from(canonicalJson(request), 'utf8').toString('base64url')

/** JSON without spaces and with sorted keys: one text per value. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
}

/** The digest of a raw body in MPP's form: without the colons of RFC 9530. */
export const mppBodyDigest = (body: Uint8Array): string =>
  `sha-256=${createHash('sha256').update(body).digest('base64')}`

const inSeconds = (at: number) => new Date(at).toISOString().replace(/\.\d+Z$/, 'Z')

const quoted = (value: string) => `"${value.replace(/[\\"]/g, '\\$&')}"`
