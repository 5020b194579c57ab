import type { FastifyInstance, FastifyReply } from 'fastify'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { HttpServices } from '../http-services.ts'
import { sendProblemDetails } from './error-handler.ts'

/** Fails waiting requests early when Postgres hangs. */

const CHECK_INTERVAL_MS = 200
const OUTAGE_TIMEOUT_MS = 1.6 * SECOND

/**
 * A hanging database neither answers nor refuses queries. While the bus reports that Postgres is silent,
 * waiting requests get 503 within about two seconds. Running tools are left alone; their own deadline bounds
 * them.
 */
export function installDatabaseOutageGuard(
  app: FastifyInstance,
  { clock, config, plane }: HttpServices,
): void {
  const waiting = new Map<FastifyReply, number>()
  const timer = setInterval(() => {
    const silent = !plane.bus.healthy()
    const since = clock.mono() - OUTAGE_TIMEOUT_MS
    for (const [reply, startedAt] of waiting) {
      // A disconnected caller triggers no onResponse.
      if (reply.raw.destroyed || (silent && startedAt <= since)) waiting.delete(reply)
      if (waiting.has(reply) || reply.raw.destroyed || reply.sent) continue
      sendProblemDetails(reply, new ServiceError('unavailable', { retry_after: 2 }), config)
    }
  }, CHECK_INTERVAL_MS)
  timer.unref()
  app.addHook('onRequest', (_request, reply, done) => {
    waiting.set(reply, clock.mono())
    done()
  })
  app.addHook('preHandler', ({ routeOptions }, reply, done) => {
    if (routeOptions.config.rate === 'refuel') waiting.delete(reply)
    done()
  })
  app.addHook('onResponse', (_request, reply, done) => {
    waiting.delete(reply)
    done()
  })
  app.addHook('onClose', async () => clearInterval(timer))
}
