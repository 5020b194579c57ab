import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { ServiceError } from '../../core/errors.ts'

/** Protects the MCP endpoints from web pages, also from those that resolve their name to this machine. */

const LOOPBACK_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]'])
/** Names that only a private network resolves: a page cannot be served from them to a stranger. */
const PRIVATE_SUFFIX = /\.(localhost|local|internal)$/

/**
 * Throws `origin_not_allowed` (403) for a page of another site, and for a host that is neither the station's
 * nor private: a browser that was led here by DNS rebinding sends the name of the page.
 */
export function assertMcpOrigin(request: FastifyRequest, publicUrl: string): void {
  const { origin } = request.headers
  const own = new URL(publicUrl)
  if (origin !== undefined && !isAllowedOrigin(String(origin), own))
    throw new ServiceError('origin_not_allowed', {
      detail: 'A web page of another site may not use this MCP endpoint.',
    })
  if (!isAllowedHost(hostnameOf(`http://${request.headers.host ?? ''}`), own.hostname))
    throw new ServiceError('origin_not_allowed', {
      detail: `This station is ${own.host}, not the host of this request. Its operator names it in PUBLIC_URL.`,
    })
}

function isAllowedOrigin(origin: string, own: URL): boolean {
  if (origin === own.origin) return true
  const hostname = hostnameOf(origin)
  return hostname !== null && LOOPBACK_HOSTS.has(hostname)
}

/** An address cannot be rebound, and a name without a dot is not public. */
function isAllowedHost(hostname: string | null, own: string): boolean {
  if (hostname === null) return false
  if (hostname === own || LOOPBACK_HOSTS.has(hostname)) return true
  const isAddress = isIP(hostname.replace(/^\[|\]$/g, '')) !== 0
  return isAddress || !hostname.includes('.') || PRIVATE_SUFFIX.test(hostname)
}

function hostnameOf(url: string): string | null {
  try {
    return new URL(url).hostname
  } catch {
    return null
  }
}
