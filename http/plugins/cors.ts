import type { FastifyInstance } from 'fastify'
import { PROXY_HEADER } from '../auth/operator-access.ts'
import { requestPath } from '../request-path.ts'
import type { RequestHook } from './request-hooks.ts'

/** What pages of other sites may do (decision 371): the only list of it. */

/** Paths that any origin may read. The pages for people, `/metrics` and the inspector are not among them. */
const PUBLIC_PATHS =
  /^\/(api|problems|mcp|mech|hivecast|discovery|embed|\.well-known|openapi\.json|llms\.txt|llms-full\.txt|skill\.md|robots\.txt|sitemap\.xml|bounties\.rss|changelog\.rss)(?=[/?]|$)/
/** Headers of answers that a page may see; browsers show some others by themselves. */
const EXPOSED_HEADERS = [
  'PAYMENT-REQUIRED',
  'PAYMENT-RESPONSE',
  'X-PAYMENT-RESPONSE',
  'WWW-Authenticate',
  'Payment-Receipt',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'Idempotency-Replayed',
  'Idempotency-Kept',
  'X-Request-Id',
  'ETag',
  'Link',
  'Location',
  'Allow',
  'Accept-Encoding',
  'Content-Disposition',
  'Deprecation',
  'Sunset',
].join(', ')
/** Headers of this service. A page may send others too: see `isRefusedToPages`. */
const ALLOWED_HEADERS = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'Last-Event-ID',
  'MCP-Protocol-Version',
  'Mcp-Method',
  'Mcp-Name',
  'PAYMENT-SIGNATURE',
  'X-API-Key',
  'X-Backpack-Id',
  'X-Ghost-Mode',
  'X-PAYMENT',
  'X-Task-ID',
]
/** No client asks for more; a longer list is not echoed. */
const MAX_ASKED_HEADERS = 100
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,100}$/
/** What speaks for a person in a session, or for a proxy: pages of other sites send none of it. */
const SESSION_HEADER = /^(x-owner-.*|x-csrf-.*|cookie2?|host|origin|sec-.*)$/

const isRefusedToPages = (name: string): boolean =>
  SESSION_HEADER.test(name) || (PROXY_HEADER.test(name) && name !== 'x-amzn-trace-id')

/** Allows any origin, since the API uses no cookies. Set early, because streams skip `onSend`. */
export const setCorsHeaders: RequestHook = (request, reply) => {
  if (!PUBLIC_PATHS.test(requestPath(request))) return
  reply.header('access-control-allow-origin', '*')
  reply.header('access-control-expose-headers', EXPOSED_HEADERS)
}

/**
 * The headers that a page may send: those of this service, and whatever else it asks for. Clients add headers
 * of their own (tracing, payment libraries), which this service ignores; without them the browser sends nothing.
 */
function toAllowedHeaders(asked: string | undefined): string {
  const names = (asked ?? '').toLowerCase().split(',', MAX_ASKED_HEADERS)
  const known = new Set(ALLOWED_HEADERS.map((name) => name.toLowerCase()))
  const others = names
    .map((name) => name.trim())
    .filter((name) => HEADER_NAME.test(name) && !known.has(name) && !isRefusedToPages(name))
  return [...ALLOWED_HEADERS, ...new Set(others)].join(', ')
}

/** Answers the requests that browsers send ahead of others. */
export function installCorsPreflight(app: FastifyInstance): void {
  app.options(
    '/*',
    { config: { auth: 'none', rate: 'none', ignoresUnknownQuery: true }, schema: { hide: true } },
    async (request, reply) => {
      if (PUBLIC_PATHS.test(requestPath(request))) {
        const asked = request.headers['access-control-request-headers']
        reply.header('access-control-allow-methods', 'GET, HEAD, POST, PATCH, DELETE')
        reply.header('access-control-allow-headers', toAllowedHeaders(asked))
        reply.header('access-control-max-age', '86400')
        reply.header('vary', 'Access-Control-Request-Headers')
      }
      return reply.code(204).send()
    },
  )
}
