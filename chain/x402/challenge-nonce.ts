import { randomBytes } from 'node:crypto'
import { SECOND } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { isRecord, parseUntrustedJson, type UntrustedJsonObject } from '../untrusted-json.ts'
import { findPaymentCredential, type RequestHeaders } from '../onchain-payment.ts'

/** Nonces that a 402 gives to its requester. */

const BYTES = 16
const TICKET = /^([0-9a-z]{1,9})\.([A-Za-z0-9_-]{22})$/
const IDENTIFIER = /^[A-Za-z0-9_-]{16,128}$/

/**
 * Creates the nonce in `extra` of a 402's entries: a version 2 payment returns it in `accepted`,
 * and it never appears on a chain. It contains only its creation time and is optional. `now` in
 * milliseconds.
 */
export const createChallengeNonce = (now: number): string =>
  `${Math.floor(now / SECOND).toString(36)}.${randomBytes(BYTES).toString('base64url')}`

/**
 * The values of a credential that never appear on a chain: the ticket of its 402, the id of the
 * extension `payment-identifier`, and for MPP the id of a challenge with a random part. Empty for
 * the short form and version 1, which return nothing. With `now`, in milliseconds, only recent
 * tickets: the requester of an older one may have published it.
 */
export function readPaymentSecrets(headers: RequestHeaders, now: number | null): string[] {
  const credential = findPaymentCredential(headers)
  const document = credential === null ? null : parseUntrustedJson(credential.text)
  if (credential === null || document === null) return []
  const found =
    credential.wire === 'mpp'
      ? [challengeIn(document)]
      : [ticketIn(document, now), identifierIn(document)]
  return found.filter((secret) => secret !== null)
}

function challengeIn({ challenge }: UntrustedJsonObject): string | null {
  if (!isRecord(challenge) || challenge['opaque'] === undefined) return null
  return typeof challenge['id'] === 'string' ? challenge['id'] : null
}

function ticketIn({ accepted }: UntrustedJsonObject, now: number | null): string | null {
  const extra = isRecord(accepted) ? accepted['extra'] : undefined
  const ticket = isRecord(extra) ? extra['ticket'] : undefined
  const [, made] = typeof ticket === 'string' ? (TICKET.exec(ticket) ?? []) : []
  if (made === undefined) return null
  const age = now === null ? 0 : now / SECOND - Number.parseInt(made, 36)
  return age <= LIMITS.paymentSeconds ? (ticket as string) : null
}

function identifierIn({ extensions }: UntrustedJsonObject): string | null {
  const extension = isRecord(extensions) ? extensions['payment-identifier'] : undefined
  const info = isRecord(extension) ? extension['info'] : undefined
  const id = isRecord(info) ? info['id'] : undefined
  return typeof id === 'string' && IDENTIFIER.test(id) ? id : null
}
