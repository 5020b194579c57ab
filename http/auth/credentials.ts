import type { FastifyRequest } from 'fastify'
import { ServiceError } from '../../core/errors.ts'

/** The key of a request, from `X-API-Key` or a bearer token (decision 22). */
export function extractApiKey({ headers }: Pick<FastifyRequest, 'headers'>): string | null {
  const named = headers['x-api-key']
  const own = named === undefined ? null : String(named).trim()
  const bearer = parseBearerToken(headers.authorization)
  if (own !== null && bearer !== null && own !== bearer) {
    throw new ServiceError('conflicting_credentials')
  }
  return own ?? bearer
}

/** What is wrong with the credentials of a request, where that can be told without looking at a key. */
export function describeMalformedCredentials({
  headers,
}: Pick<FastifyRequest, 'headers'>): string | null {
  if (headers['x-api-key'] !== undefined && String(headers['x-api-key']).trim() === '')
    return 'X-API-Key is empty. Send a key, or leave the header out.'
  if (parseBearerToken(headers.authorization)?.trim() === '')
    return 'The bearer token is empty. Send a key, or leave the header out.'
  return null
}

/** `Bearer` with nothing behind it is a bad key, not an absent one. */
export function parseBearerToken(header: string | undefined): string | null {
  const match = /^Bearer(?:\s+(.*))?$/i.exec(header?.trim() ?? '')
  return match === null ? null : (match[1] ?? '')
}
