import type { FastifyInstance } from 'fastify'
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { toUsdc } from '../../core/money.ts'
import type { Services } from '../services.ts'

/** Request durations by route pattern, never by raw address; `/metrics` is the operator's. */
export function installMetrics(app: FastifyInstance): void {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  measureSettlements(registry, app.services)
  const durations = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the first byte of a request to the last of its answer.',
    labelNames: ['route', 'method', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  })
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.routeOptions.url ?? 'unknown'
    const status = `${Math.floor(reply.statusCode / 100)}xx`
    durations.observe({ route, method: request.method, status }, reply.elapsedTime / 1_000)
    done()
  })
  app.get(
    '/metrics',
    { config: { auth: 'operator', rate: 'none' }, schema: { hide: true } },
    async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()),
  )
}

/** What is at stake by payments that have not settled, what was lost, and the bound on it. */
function measureSettlements(registry: Registry, { settlements, config }: Services): void {
  const gauge = new Gauge({
    name: 'settlements',
    help: 'Payments on a chain: open and lost ones, USDC lost and at stake, and how much may be.',
    labelNames: ['figure'],
    registers: [registry],
    async collect() {
      const { open, lost, lostValue, exposure } = await settlements.counts()
      gauge.set({ figure: 'open' }, open)
      gauge.set({ figure: 'lost' }, lost)
      gauge.set({ figure: 'lost_usdc' }, toUsdc(lostValue))
      gauge.set({ figure: 'exposure_usdc' }, toUsdc(exposure))
      gauge.set({ figure: 'exposure_limit_usdc' }, toUsdc(config.exposure))
    },
  })
}
