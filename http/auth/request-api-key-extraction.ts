import type { FastifyRequest } from 'fastify'
import { ServiceError } from '../../core/errors.ts'

/** Reads the API key from `X-API-Key` or a bearer token (decision 22). */
export function extractApiKey({ headers }: Pick<FastifyRequest, 'headers'>): string | null {
  const named = headers['x-api-key']
  const own = named === undefined ? null : String(named).trim()
  const bearer = parseBearerToken(headers.authorization)
  if (own !== null && bearer !== null && own !== bearer) {
    throw new ServiceError('conflicting_credentials')
  }
  return own ?? bearer ?? (hasKeyWithoutBearer(headers.authorization) ? '' : null)
}

/** Other schemes belong to proxies and to payments, but a key in them was meant for this station. */
const hasKeyWithoutBearer = (header: string | undefined): boolean =>
  header !== undefined &&
  parseBearerToken(header) === null &&
  !/^Payment\s/i.test(header) &&
  KEY_WITHOUT_BEARER.test(header)

/** A key in `Authorization` without the scheme Bearer. */
const KEY_WITHOUT_BEARER = /(^|\s)gas_/

/** Describes malformed credentials, as far as that is known without a key lookup. */
export function describeMalformedCredentials({
  headers,
}: Pick<FastifyRequest, 'headers'>): string | null {
  if (headers['x-api-key'] !== undefined && String(headers['x-api-key']).trim() === '')
    return 'X-API-Key is empty. Send a key, or leave the header out.'
  if (parseBearerToken(headers.authorization)?.trim() === '')
    return 'The bearer token is empty. Send a key, or leave the header out.'
  if (hasKeyWithoutBearer(headers.authorization))
    return 'Authorization has a key without its scheme. Send `Authorization: Bearer <key>`.'
  return null
}

/** Returns an empty string for `Bearer` without a token: it is a bad key, not an absent one. */
export function parseBearerToken(header: string | undefined): string | null {
  const match = /^Bearer(?:\s+(.*))?$/i.exec(header?.trim() ?? '')
  return match === null ? null : (match[1] ?? '')
}
