import type { FastifyInstance, FastifyReply } from 'fastify'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { HttpServices } from '../services.ts'
import { sendProblemDetails } from './error-handler.ts'

const CHECK_INTERVAL_MS = 200
const OUTAGE_TIMEOUT_MS = 1.6 * SECOND

/**
 * A database that hangs answers no query and refuses none. Whoever waits while the bus says that
 * Postgres is silent is told 503 in about two seconds, instead of waiting with it. A tool that runs
 * is left alone: its own deadline bounds it.
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
      // A caller who hung up brings no onResponse.
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
