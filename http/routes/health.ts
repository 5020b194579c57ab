import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { PlaneHealth } from '../../persistence/plane.ts'
import { failures } from '../schemas.ts'
import type { Services } from '../services.ts'

/** Below the second a caller is promised, with room for the answer itself. */
const PATIENCE_MS = 950

const Dependency = Type.Object({
  ok: Type.Boolean(),
  kind: Type.String(),
  detail: Type.Optional(Type.String()),
})
const Health = Type.Object({
  status: Type.Enum(['ok', 'degraded']),
  dependencies: Type.Object({
    postgres: Dependency,
    redis: Dependency,
    bus: Dependency,
    deposits: Dependency,
    mail: Dependency,
    chat: Dependency,
    webhooks: Dependency,
    sandbox: Dependency,
  }),
  degraded_dependencies: Type.Array(Type.String()),
  plane: Type.String({ description: 'Which kind of database and cache it stands on.' }),
  bus: Type.String({ description: 'up, or down while other nodes cannot be heard.' }),
  rails: Type.Record(Type.String(), Type.String(), {
    description: 'For each chain: on, or why payments on it are off.',
  }),
  streams: Type.Object(
    { sockets: Type.Integer(), events: Type.Integer() },
    { description: 'WebSockets and event streams open on this node.' },
  ),
  version: Type.String(),
  uptime_s: Type.Integer(),
})

const getHealth = {
  config: { auth: 'none', rate: 'none' } as const,
  schema: {
    operationId: 'getHealth',
    summary: 'Whether the service and what it stands on are well',
    tags: ['service'],
    response: { 200: Health, 503: Health, '4XX': failures['4XX'] },
  },
}

/** Health: Redis lost is degraded, Postgres lost is 503 (decision 46). Answers within a second. */
export const healthRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { clock, config, plane } = services
  const startedAt = clock.mono()
  let asking: Promise<PlaneHealth> | null = null

  /** However many ask at once, the database is asked once. */
  function ask(): Promise<PlaneHealth> {
    asking ??= inTime(plane.health()).finally(() => {
      asking = null
    })
    return asking
  }

  app.get('/api/network/health', getHealth, async (_request, reply) => {
    const health = await ask()
    const dependencies = {
      ...health,
      bus: busHealth(services),
      deposits: services.depositHealth(),
      ...tellingHealth(services),
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

function tellingHealth({ owners, webhooks }: Services) {
  const { email: mail, telegram: chat } = owners.alerts.health()
  return { mail, chat, webhooks: webhooks.deliverer.health() }
}

const busHealth = ({ plane }: Services) => ({ ok: plane.bus.healthy(), kind: 'postgres' })

async function inTime(health: Promise<PlaneHealth>): Promise<PlaneHealth> {
  let late: NodeJS.Timeout | undefined
  const silent: PlaneHealth = {
    postgres: { ok: false, kind: 'unknown', detail: 'did not answer in time' },
    redis: { ok: false, kind: 'none', detail: 'did not answer in time' },
  }
  const patience = new Promise<PlaneHealth>((resolve) => {
    late = setTimeout(resolve, PATIENCE_MS, silent)
  })
  try {
    return await Promise.race([health, patience])
  } catch {
    return silent
  } finally {
    clearTimeout(late)
  }
}
