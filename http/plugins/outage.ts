import type { FastifyInstance, FastifyReply } from 'fastify'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { Services } from '../services.ts'
import { sendProblem } from './problems.ts'

const LOOK_EVERY_MS = 200
const PATIENCE_MS = 1.6 * SECOND

/**
 * A database that hangs answers no query and refuses none. Whoever waits while the bus says that
 * Postgres is silent is told 503 in about two seconds, instead of waiting with it. A tool that runs
 * is left alone: its own deadline bounds it.
 */
export function installOutageGuard(app: FastifyInstance, { clock, config, plane }: Services): void {
  const waiting = new Map<FastifyReply, number>()
  const look = setInterval(() => {
    const silent = !plane.bus.healthy()
    const since = clock.mono() - PATIENCE_MS
    for (const [reply, startedAt] of waiting) {
      // A caller who hung up brings no onResponse.
      if (reply.raw.destroyed || (silent && startedAt <= since)) waiting.delete(reply)
      if (waiting.has(reply) || reply.raw.destroyed || reply.sent) continue
      sendProblem(reply, new ServiceError('unavailable', { retry_after: 2 }), config)
    }
  }, LOOK_EVERY_MS)
  look.unref()
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
  app.addHook('onClose', async () => clearInterval(look))
}
