import type { FastifyRequest } from 'fastify'
import { ServiceError } from '../../core/errors.ts'

/** Refuses pages of other sites: a browser sends the cookies of a session with their requests too. */

const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i

/**
 * Throws 403 for a foreign Origin, and for none where a browser always sends one (`required`). Allowed are
 * that of `PUBLIC_URL`, and a loopback origin that is the Host of the request: any name may resolve to the
 * loopback (DNS rebinding).
 */
export function assertSameOrigin(
  { headers }: Pick<FastifyRequest, 'headers'>,
  publicUrl: string,
  { required = false } = {},
): void {
  const { origin, host = '' } = headers
  if (origin === undefined && !required) return
  if (origin !== undefined && origin === originOf(publicUrl)) return
  if (LOOPBACK_HOST.test(host) && (origin === `http://${host}` || origin === `https://${host}`))
    return
  throw new ServiceError('origin_not_allowed')
}

function originOf(url: string): string | null {
  try {
    return new URL(url).origin
  } catch {
    return null
  }
}
