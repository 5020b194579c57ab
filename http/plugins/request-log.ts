import type { FastifyInstance, FastifyServerOptions } from 'fastify'

/** One of so many successful requests is logged; every other one always. */
const SUCCESS_SAMPLE_INTERVAL = 100

/** JSON lines; credentials never reach them, whatever object they hang on. */
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
      // Postgres spells out the row that failed.
      'err.detail',
      'err.where',
    ],
    censor: '[secret]',
  },
})

/** One line a request, after its answer. */
export function installRequestLog(app: FastifyInstance): void {
  let served = 0
  app.addHook('onResponse', (request, reply, done) => {
    done()
    const { statusCode: status } = reply
    if (status < 300 && served++ % SUCCESS_SAMPLE_INTERVAL !== 0) return
    // A path that is no route may be anything, a mistyped request with its key in it too.
    const route = request.routeOptions.url ?? 'unknown'
    const ms = Math.round(reply.elapsedTime * 10) / 10
    const line = { method: request.method, route, status, ms, agent: request.agentId || undefined }
    if (status >= 500) request.log.warn(line, 'request')
    else request.log.info(line, 'request')
  })
}
