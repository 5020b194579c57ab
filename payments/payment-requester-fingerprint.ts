import { createHash } from 'node:crypto'
import { readOffChainPaymentSecrets } from '../chain/x402/challenge-nonces-and-payment-ids.ts'
import type { RequesterIdentity } from '../domain/repeated-payment-request-check.ts'
import type { PaymentRequestContext } from './payment-service-types.ts'

/** Hashes the identity of a requester together with its payment credential. */

/** A shorter key may be guessed and does not identify the requester. */
const MIN_SECRET_KEY_CHARS = 16

/**
 * Hashes the sender of a request with its credential, so that nothing links it to another payment.
 * `now` is set at the first use, which requires a fresh ticket.
 */
export function fingerprintPaymentRequester(
  { paymentHeader, address, key = null }: PaymentRequestContext,
  credential: string,
  now: number | null,
): RequesterIdentity {
  const mark = (kind: string, value: string) =>
    createHash('sha256').update([credential, kind, value].join('|')).digest('hex')
  const own = key === null ? null : mark('key', key)
  const secrets = readOffChainPaymentSecrets(paymentHeader, now).map((secret) =>
    mark('secret', secret),
  )
  const hard = own !== null && (key?.length ?? 0) >= MIN_SECRET_KEY_CHARS ? [own] : []
  return {
    key: own,
    secrets: [...secrets, ...hard],
    address: address === undefined ? null : mark('address', address),
  }
}
