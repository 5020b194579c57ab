import type { Response } from 'undici'
import { ServiceError } from '../../core/errors.ts'

/** What a failed fetch means to a caller: the refusal inside it, a timeout, or a failure upstream. */
export function explainFetch(error: unknown, details: Record<string, unknown>): unknown {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    // A copy: one failed connection may refuse several requests, and each adds to its own.
    if (cause instanceof ServiceError)
      return new ServiceError(cause.code, { ...cause.details }, cause)
    if (cause.message === 'bad port')
      return new ServiceError('blocked_url', { ...details, reason: 'port' })
    const { code } = cause as NodeJS.ErrnoException
    if (code === undefined) continue
    if (TIMEOUTS.has(code)) return new ServiceError('upstream_timeout', details, error)
    return new ServiceError('upstream_error', { ...details, reason: code }, error)
  }
  if (error instanceof AggregateError) return explainFetch(error.errors[0], details)
  return new ServiceError('upstream_error', details, error)
}

const TIMEOUTS = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
  'ETIMEOUT',
])

/** Collects a body while it is decoded: a small gzip may unpack to any size. */
export async function readAtMost(response: Response, maxBytes: number): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of response.body ?? []) {
    size += piece.byteLength
    if (size > maxBytes) {
      throw new ServiceError('response_too_large', { limit_bytes: maxBytes })
    }
    pieces.push(piece)
  }
  return Buffer.concat(pieces, size)
}
