import type { Response } from 'undici'
import { ServiceError } from '../../core/errors.ts'

/** Maps a failed fetch to the error inside it, a timeout, or an upstream failure. */
export function toFetchError(error: unknown, details: Record<string, unknown>): unknown {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    // A copy, because one failed connection may fail several requests, and each adds details.
    if (cause instanceof ServiceError)
      return new ServiceError(cause.code, { ...cause.details }, cause)
    if (cause.message === 'bad port') return blockedUrlError('port', details)
    const { code } = cause as NodeJS.ErrnoException
    if (code === undefined) continue
    if (TIMEOUT_ERROR_CODES.has(code)) return new ServiceError('upstream_timeout', details, error)
    return new ServiceError(
      'upstream_error',
      { ...details, reason: code, ...connectionErrorDetail(code, details) },
      error,
    )
  }
  if (error instanceof AggregateError) return toFetchError(error.errors[0], details)
  return new ServiceError('upstream_error', details, error)
}

const BLOCKED_URL_DETAILS = {
  scheme: 'Only http and https are fetched.',
  userinfo: 'An address with a name or a password in it is not fetched: send a header.',
  port: 'This port is not fetched: 80, 443 and those from 1024 up are, but for those of databases, brokers and other services that are no web.',
  address: 'Only public addresses are fetched.',
} as const

/** The error for a forbidden address, with its reason. */
export const blockedUrlError = (
  reason: keyof typeof BLOCKED_URL_DETAILS,
  details: Record<string, unknown>,
) => new ServiceError('blocked_url', { ...details, reason, detail: BLOCKED_URL_DETAILS[reason] })

/** Describes a connection error to a host that the caller named; returns nothing for other hosts. */
function connectionErrorDetail(
  code: string,
  { host }: Record<string, unknown>,
): { detail?: string } {
  if (typeof host !== 'string') return {}
  if (code === 'ENOTFOUND' || code === 'ENODATA') return { detail: `There is no host ${host}.` }
  if (code === 'ECONNREFUSED') return { detail: `${host} accepts no connections on this port.` }
  if (/^(?:CERT_|ERR_TLS|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/.test(code))
    return { detail: `The certificate of ${host} is not valid.` }
  return { detail: `The connection to ${host} failed (${code}).` }
}

const TIMEOUT_ERROR_CODES = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
  'ETIMEOUT',
])

/** The codings that `fetch` decodes; the bytes of others would arrive as they are. */
const DECODED_CODINGS = new Set(['gzip', 'x-gzip', 'deflate', 'br', 'identity', ''])

function assertDecoded({ headers }: Response): void {
  const codings = (headers.get('content-encoding') ?? '').toLowerCase().split(',')
  const unknown = codings.map((one) => one.trim()).find((one) => !DECODED_CODINGS.has(one))
  if (unknown !== undefined)
    throw new ServiceError('upstream_schema', {
      detail: `The answer is compressed with ${unknown.slice(0, 32)}, which was not asked for.`,
    })
}

/** Reads a body while it is decompressed, up to `maxBytes`: a small gzip may expand to any size. */
export async function readLimitedBody(response: Response, maxBytes: number): Promise<Buffer> {
  assertDecoded(response)
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
