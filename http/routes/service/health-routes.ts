import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { PostgresAndRedisHealth } from '../../../persistence/start-postgres-and-redis.ts'
import { errorResponses } from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'

/** Route for the health of the service (decision 46). */

/** Callers are promised a response within a second; leaves time for the response itself. */
const HEALTH_CHECK_TIMEOUT_MS = 950

const DependencySchema = Type.Object({
  ok: Type.Boolean(),
  kind: Type.String(),
  detail: Type.Optional(Type.String()),
})
const HealthResponse = Type.Object({
  status: Type.Enum(['ok', 'degraded']),
  dependencies: Type.Object({
    postgres: DependencySchema,
    redis: DependencySchema,
    bus: DependencySchema,
    deposits: DependencySchema,
    mail: DependencySchema,
    chat: DependencySchema,
    webhooks: DependencySchema,
    sandbox: DependencySchema,
  }),
  degraded_dependencies: Type.Array(Type.String()),
  plane: Type.String({ description: 'The database and cache in use.' }),
  bus: Type.String({ description: 'up, or down while other nodes are unreachable.' }),
  rails: Type.Record(Type.String(), Type.String(), {
    description: 'For each chain: on, or the reason why payments are off.',
  }),
  streams: Type.Object(
    { sockets: Type.Integer(), events: Type.Integer() },
    { description: 'WebSockets and event streams open on this node.' },
  ),
  version: Type.String(),
  uptime_s: Type.Integer(),
})

/** Supervisors look here: they restart what is not alive, and send nothing to what is not ready. */
const LIVENESS_PATHS = ['/livez', '/healthz', '/health']
const probe = {
  config: { auth: 'none', rate: 'none', ignoresUnknownQuery: true } as const,
  schema: { hide: true },
}

const getHealth = {
  config: { auth: 'none', rate: 'none' } as const,
  schema: {
    operationId: 'getHealth',
    summary: 'Health of the service and its dependencies',
    tags: ['service'],
    response: { 200: HealthResponse, 503: HealthResponse, '4XX': errorResponses['4XX'] },
  },
}

/** Reports health within a second: without Redis it is degraded, without Postgres 503. */
export const healthRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { clock, config, plane } = services
  const startedAt = clock.mono()
  let asking: Promise<PostgresAndRedisHealth> | null = null

  /** Concurrent requests share one database check. */
  function checkOnce(): Promise<PostgresAndRedisHealth> {
    asking ??= withHealthTimeout(plane.health()).finally(() => {
      asking = null
    })
    return asking
  }

  for (const path of LIVENESS_PATHS)
    app.get(path, probe, async (_request, reply) =>
      reply.header('cache-control', 'no-store').send({ status: 'ok' }),
    )

  app.get('/readyz', probe, async (_request, reply) => {
    const { ok } = (await checkOnce()).postgres
    reply.code(ok ? 200 : 503).header('cache-control', 'no-store')
    return { status: ok ? 'ok' : 'unavailable' }
  })

  app.get('/api/network/health', getHealth, async (_request, reply) => {
    const [health, ok] = await Promise.all([
      checkOnce(),
      plane.bus.answers(HEALTH_CHECK_TIMEOUT_MS),
    ])
    const dependencies = {
      ...health,
      bus: { ok, kind: 'postgres' },
      deposits: services.depositHealth(),
      ...notifierHealth(services),
      sandbox: services.sandboxHealth(),
    }
    const down = Object.entries(dependencies).filter(([, { ok }]) => !ok)
    reply.code(health.postgres.ok ? 200 : 503).header('cache-control', 'no-store')
    return {
      status: down.length === 0 ? ('ok' as const) : ('degraded' as const),
      dependencies,
      degraded_dependencies: down.map(([name]) => name),
      plane: plane.kinds,
      bus: dependencies.bus.ok ? 'up' : 'down',
      rails: services.rails(),
      streams: services.realtime.counts(),
      version: config.version,
      uptime_s: Math.floor((clock.mono() - startedAt) / 1_000),
    }
  })
}

function notifierHealth({ owners, webhooks }: HttpServices) {
  const { email: mail, telegram: chat } = owners.alerts.health()
  return { mail, chat, webhooks: webhooks.deliverer.health() }
}

async function withHealthTimeout(
  health: Promise<PostgresAndRedisHealth>,
): Promise<PostgresAndRedisHealth> {
  let late: NodeJS.Timeout | undefined
  const silent: PostgresAndRedisHealth = {
    postgres: { ok: false, kind: 'unknown', detail: 'did not answer in time' },
    redis: { ok: false, kind: 'none', detail: 'did not answer in time' },
  }
  const patience = new Promise<PostgresAndRedisHealth>((resolve) => {
    late = setTimeout(resolve, HEALTH_CHECK_TIMEOUT_MS, silent)
  })
  try {
    return await Promise.race([health, patience])
  } catch {
    return silent
  } finally {
    clearTimeout(late)
  }
}
