import { randomBytes } from 'node:crypto'
import { SECOND } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import type { DecodedPaymentHeader } from '../decoded-payment-header.ts'
import type { PaymentHeader } from '../find-request-payment-header.ts'

/** Values that only a payer and this service know: nonces of a 402, and ids of payments. */

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
 * The values of a payment header that never appear on a chain: the ticket of its 402, the id of the
 * extension `payment-identifier`, and for MPP the id of a challenge with a random part. Empty for
 * the short form and version 1, which return nothing. With `now`, in milliseconds, only recent
 * tickets: the requester of an older one may have published it.
 */
export function readOffChainPaymentSecrets(
  header: PaymentHeader | null,
  now: number | null,
): string[] {
  const document = header?.document ?? null
  if (header === null || document === null) return []
  const found =
    header.protocol === 'mpp'
      ? [challengeIn(document)]
      : [ticketIn(document, now), findPaymentIdentifier(document) ?? null]
  return found.filter((secret) => secret !== null)
}

function challengeIn(document: DecodedPaymentHeader): string | null {
  const challenge = document.optional('challenge')
  const id = challenge?.value('opaque') === undefined ? undefined : challenge.value('id')
  return typeof id === 'string' ? id : null
}

function ticketIn(document: DecodedPaymentHeader, now: number | null): string | null {
  const ticket = document.optional('accepted')?.optional('extra')?.value('ticket')
  const [whole, made] = typeof ticket === 'string' ? (TICKET.exec(ticket) ?? []) : []
  if (whole === undefined || made === undefined) return null
  const age = now === null ? 0 : now / SECOND - Number.parseInt(made, 36)
  return age <= LIMITS.paymentSeconds ? whole : null
}

/** The id of the extension `payment-identifier`; null if it is malformed, undefined without one. */
export function findPaymentIdentifier(document: DecodedPaymentHeader): string | null | undefined {
  const extension = document.optional('extensions')?.optional('payment-identifier')
  const id = extension?.optional('info')?.value('id')
  if (id === undefined) return undefined
  return typeof id === 'string' && IDENTIFIER.test(id) ? id : null
}
