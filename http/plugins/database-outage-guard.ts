import type { FastifyInstance, FastifyReply } from 'fastify'
import { SECOND } from '../../core/clock.ts'
import { createIntervalWhileNeeded } from '../../core/concurrency/interval-while-needed.ts'
import { ServiceError } from '../../core/errors.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'
import type { RequestHook, ResponseHook } from './request-hooks.ts'
import { sendProblemDetails } from './error-handler.ts'

/** Fails waiting requests early when Postgres hangs. */

const CHECK_INTERVAL_MS = 200
const OUTAGE_TIMEOUT_MS = 1.6 * SECOND

/**
 * A hanging database neither answers nor refuses queries. While the bus reports that Postgres is silent,
 * waiting requests get 503 within about two seconds. Running tools are left alone; their own deadline bounds
 * them.
 */
export function createDatabaseOutageGuard(
  app: FastifyInstance,
  { clock, config, plane }: HttpServices,
): { watch: RequestHook; leaveToTool: RequestHook; forget: ResponseHook } {
  const waiting = new Map<FastifyReply, number>()
  const check = () => {
    const silent = plane.bus.isDown()
    const since = clock.mono() - OUTAGE_TIMEOUT_MS
    for (const [reply, startedAt] of waiting) {
      // A disconnected caller triggers no onResponse.
      if (reply.raw.destroyed || (silent && startedAt <= since)) waiting.delete(reply)
      if (waiting.has(reply) || reply.raw.destroyed || reply.sent) continue
      sendProblemDetails(reply, new ServiceError('unavailable', { retry_after: 2 }), config)
    }
  }
  const checks = createIntervalWhileNeeded(check, CHECK_INTERVAL_MS, () => waiting.size > 0)
  app.addHook('onClose', async () => checks.stop())
  return {
    watch(_request, reply) {
      waiting.set(reply, clock.mono())
      checks.start()
    },
    /** Tools have deadlines of their own. */
    leaveToTool({ routeOptions }, reply) {
      const { rate, runsTools } = routeOptions.config
      if (rate === 'refuel' || runsTools === true) waiting.delete(reply)
    },
    forget: (_request, reply) => void waiting.delete(reply),
  }
}
