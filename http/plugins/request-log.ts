import type { FastifyServerOptions } from 'fastify'
import type { ResponseHook } from './request-hooks.ts'

/** The request log: JSON lines without credentials. */

/** One in this many successful requests is logged; all others are always logged. */
const SUCCESS_SAMPLE_INTERVAL = 100

/** Logger options that redact credentials wherever they occur. */
export const createLoggerOptions = (
  level: string,
): NonNullable<FastifyServerOptions['logger']> => ({
  level,
  redact: {
    paths: [
      'req.headers["x-api-key"]',
      'req.headers.authorization',
      'req.headers["payment-signature"]',
      'req.headers["x-payment"]',
      'headers["x-api-key"]',
      'headers.authorization',
      'api_key',
      '*.api_key',
      '*.private_key',
      '*.secret',
      // Postgres quotes the failing row here.
      'err.detail',
      'err.where',
    ],
    censor: '[secret]',
  },
})

/** Logs one line per request, after its response. */
export function createRequestLog(): ResponseHook {
  let served = 0
  return (request, reply) => {
    const { statusCode: status } = reply
    if (status < 300 && served++ % SUCCESS_SAMPLE_INTERVAL !== 0) return
    // An unmatched path may hold anything, including an API key.
    const route = request.routeOptions.url ?? 'unknown'
    const ms = Math.round(reply.elapsedTime * 10) / 10
    const agent = request.agentId || undefined
    const line = { reqId: request.id, method: request.method, route, status, ms, agent }
    if (status >= 500) request.log.warn(line, 'request')
    else request.log.info(line, 'request')
  }
}
