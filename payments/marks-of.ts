import { createHash } from 'node:crypto'
import { secretsIn } from '../chain/x402/ticket.ts'
import type { Marks } from '../core/marks.ts'
import type { Door } from './paying.ts'

/** A key shorter than this may be guessed: it says nothing about who sends it. */
const SECRET_KEY = 16

/**
 * What is kept of who sent a request, hashed with its credential, so that nothing ties it to another
 * payment. `now` for its first use, where only a fresh ticket counts.
 */
export function marksOf(
  { headers, address, key = null }: Door,
  credential: string,
  now: number | null,
): Marks {
  const mark = (kind: string, value: string) =>
    createHash('sha256').update([credential, kind, value].join('|')).digest('hex')
  const own = key === null ? null : mark('key', key)
  const hard = own !== null && (key?.length ?? 0) >= SECRET_KEY ? [own] : []
  return {
    key: own,
    secrets: [...secretsIn(headers, now).map((secret) => mark('secret', secret)), ...hard],
    address: address === undefined ? null : mark('address', address),
  }
}
