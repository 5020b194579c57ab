import type { FastifyInstance } from 'fastify'
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { toUsdc } from '../../core/money.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'
import type { ResponseHook } from './request-hooks.ts'

/**
 * Returns what measures request durations, by route pattern and never by raw address. Only the operator reads
 * `/metrics`.
 */
export function installHttpRequestMetrics(app: FastifyInstance): ResponseHook {
  const registry = new Registry()
  measureSettlements(registry, app.services)
  measureStreams(registry, app.services)
  measureWebhooks(registry, app.services)
  const durations = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the first byte of a request to the last of its answer.',
    labelNames: ['route', 'method', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  })
  let isMeasured = false
  app.get(
    '/metrics',
    { config: { auth: 'operator', rate: 'none' }, schema: { hide: true } },
    async (_request, reply) => {
      // Sampling the event loop wakes a process a hundred times a second: only where somebody looks.
      if (!isMeasured) collectDefaultMetrics({ register: registry })
      isMeasured = true
      return reply.type(registry.contentType).send(await registry.metrics())
    },
  )
  // Resolving the labels costs more than the observation.
  const durationOf = new Map<string, Histogram.Internal<string>>()
  return (request, reply) => {
    const route = request.routeOptions.url ?? 'unknown'
    const status = `${Math.floor(reply.statusCode / 100)}xx`
    const series = `${request.method} ${status} ${route}`
    let duration = durationOf.get(series)
    if (duration === undefined) {
      duration = durations.labels({ route, method: request.method, status })
      durationOf.set(series, duration)
    }
    duration.observe(reply.elapsedTime / 1_000)
  }
}

/** Measures the amount exposed to unsettled payments, the losses, and the limit. */
function measureSettlements(registry: Registry, { settlements, config }: HttpServices): void {
  const gauge = new Gauge({
    name: 'settlements',
    help: 'Payments on a chain: open, stuck and lost ones, USDC lost and at stake, and how much may be.',
    labelNames: ['figure'],
    registers: [registry],
    async collect() {
      const { open, stuck, lost, lostValue, exposure } = await settlements.counts()
      gauge.set({ figure: 'open' }, open)
      gauge.set({ figure: 'stuck' }, stuck)
      gauge.set({ figure: 'lost' }, lost)
      gauge.set({ figure: 'lost_usdc' }, toUsdc(lostValue))
      gauge.set({ figure: 'exposure_usdc' }, toUsdc(exposure))
      gauge.set({ figure: 'exposure_limit_usdc' }, toUsdc(config.exposure))
    },
  })
}

/** Measures pending deliveries, final failures of the last day, and the duration of attempts. */
function measureWebhooks(registry: Registry, { webhooks, clock }: HttpServices): void {
  const gauge = new Gauge({
    name: 'webhook_deliveries',
    help: 'Deliveries that wait, those that failed in the last day, and the seconds the oldest waits.',
    labelNames: ['figure'],
    registers: [registry],
    async collect() {
      const counts = await webhooks.deliveries.counts(new Date(clock.now()))
      gauge.set({ figure: 'pending' }, counts.pending)
      gauge.set({ figure: 'failed' }, counts.failed)
      gauge.set({ figure: 'oldest_seconds' }, counts.oldestSeconds)
    },
  })
  const attempts = new Histogram({
    name: 'webhook_attempt_seconds',
    help: 'Time of one attempt, by what became of it.',
    labelNames: ['outcome'],
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 4],
    registers: [registry],
  })
  webhooks.deliverer.onAttempt(({ outcome, seconds }) => attempts.observe({ outcome }, seconds))
}

/** Measures connected streams and their delay behind the commit. */
function measureStreams(registry: Registry, { realtime }: HttpServices): void {
  const open = new Gauge({
    name: 'streams_open',
    help: 'WebSockets and event streams open on this node.',
    labelNames: ['kind'],
    registers: [registry],
    collect() {
      const { sockets, events } = realtime.counts()
      open.set({ kind: 'socket' }, sockets)
      open.set({ kind: 'events' }, events)
    },
  })
  const lag = new Gauge({
    name: 'streams_lag_seconds',
    help: 'From a row to its being passed on, the latest of each table.',
    labelNames: ['table'],
    registers: [registry],
    collect() {
      for (const [table, { seconds }] of Object.entries(realtime.lags()))
        lag.set({ table }, seconds)
    },
  })
  const waiting = new Gauge({
    name: 'streams_rows_waiting',
    help: 'Rows that are read and wait for an older transaction to end.',
    labelNames: ['table'],
    registers: [registry],
    collect() {
      for (const [table, { waiting: rows }] of Object.entries(realtime.lags()))
        waiting.set({ table }, rows)
    },
  })
}
