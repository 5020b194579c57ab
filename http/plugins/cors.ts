import type { FastifyInstance } from 'fastify'
import type { RequestHook } from './request-hooks.ts'

/** CORS headers of the public API. */

const PUBLIC_PATHS = /^\/(api|problems|mcp|mech|hivecast|openapi\.json)(?=[/?]|$)/
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
].join(', ')
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
].join(', ')

/** Allows any origin, since the API uses no cookies. Set early, because streams skip `onSend`. */
export const setCorsHeaders: RequestHook = (request, reply) => {
  if (!PUBLIC_PATHS.test(request.url)) return
  reply.header('access-control-allow-origin', '*')
  reply.header('access-control-expose-headers', EXPOSED_HEADERS)
}

/** Answers the requests that browsers send ahead of others. */
export function installCorsPreflight(app: FastifyInstance): void {
  app.options(
    '/*',
    { config: { auth: 'none', rate: 'none', ignoresUnknownQuery: true }, schema: { hide: true } },
    async (request, reply) => {
      if (PUBLIC_PATHS.test(request.url)) {
        reply.header('access-control-allow-methods', 'GET, POST, PATCH, DELETE')
        reply.header('access-control-allow-headers', ALLOWED_HEADERS)
        reply.header('access-control-max-age', '86400')
      }
      return reply.code(204).send()
    },
  )
}
