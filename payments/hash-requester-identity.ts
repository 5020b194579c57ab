import { createHash } from 'node:crypto'
import { readPaymentSecrets } from '../chain/x402/challenge-nonce.ts'
import type { RequesterIdentity } from '../domain/requester-identity.ts'
import type { PaymentContext } from './payment-service-types.ts'

/** A key shorter than this may be guessed: it says nothing about who sends it. */
const MIN_SECRET_KEY_CHARS = 16

/**
 * What is kept of who sent a request, hashed with its credential, so that nothing ties it to another
 * payment. `now` for its first use, where only a fresh ticket counts.
 */
export function hashRequesterIdentity(
  { headers, address, key = null }: PaymentContext,
  credential: string,
  now: number | null,
): RequesterIdentity {
  const mark = (kind: string, value: string) =>
    createHash('sha256').update([credential, kind, value].join('|')).digest('hex')
  const own = key === null ? null : mark('key', key)
  const hard = own !== null && (key?.length ?? 0) >= MIN_SECRET_KEY_CHARS ? [own] : []
  return {
    key: own,
    secrets: [...readPaymentSecrets(headers, now).map((secret) => mark('secret', secret)), ...hard],
    address: address === undefined ? null : mark('address', address),
  }
}
