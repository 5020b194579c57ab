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
  return own ?? bearer
}

/** Describes malformed credentials, as far as that is known without a key lookup. */
export function describeMalformedCredentials({
  headers,
}: Pick<FastifyRequest, 'headers'>): string | null {
  if (headers['x-api-key'] !== undefined && String(headers['x-api-key']).trim() === '')
    return 'X-API-Key is empty. Send a key, or leave the header out.'
  if (parseBearerToken(headers.authorization)?.trim() === '')
    return 'The bearer token is empty. Send a key, or leave the header out.'
  return null
}

/** Returns an empty string for `Bearer` without a token: it is a bad key, not an absent one. */
export function parseBearerToken(header: string | undefined): string | null {
  const match = /^Bearer(?:\s+(.*))?$/i.exec(header?.trim() ?? '')
  return match === null ? null : (match[1] ?? '')
}
