import { channel } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { ZERO } from '../core/money.ts'
import type { Shape } from '../core/shape.ts'
import { systemClock } from '../core/clock.ts'
import { buildServer } from '../http/server.ts'
import type { Services } from '../http/services.ts'
import type { Auth, Bound } from '../http/types.ts'
import { createCatalogue } from '../tools/catalogue.ts'

/** One route of the service, as the server registers it. */
export interface Route {
  readonly method: string
  /** With its parameters in braces: `/api/task/{id}`. */
  readonly path: string
  readonly auth: Auth
  /** What a key bound to a Backpack may do here. */
  readonly bound: Bound | 'refused'
  readonly summary: string
  /** What it takes, as it stands in the route. */
  readonly body: Shape
  readonly query: Shape
  /** Not part of the interface: files, the documentation page, answers to preflight requests. */
  readonly hidden: boolean
}

/** Builds the server over services that do nothing and lists what it registers. */
export async function listRoutes(): Promise<Route[]> {
  const routes: Route[] = []
  const started = channel('fastify.initialization')
  const listen = (message: unknown) =>
    collect((message as { fastify: FastifyInstance }).fastify, routes)
  started.subscribe(listen)
  try {
    const app = await buildServer(inertServices())
    await app.ready()
    await app.close()
  } finally {
    started.unsubscribe(listen)
  }
  return routes
}

function collect(app: FastifyInstance, routes: Route[]): void {
  app.addHook('onRoute', ({ method, url, config, schema }) => {
    const path = url.replace(/:(\w+)/g, '{$1}')
    const summary = schema?.summary ?? ''
    for (const name of [method].flat().filter((one) => one !== 'HEAD' && one !== 'OPTIONS')) {
      routes.push({
        method: name,
        path,
        auth: config?.auth ?? 'none',
        bound: config?.bound ?? 'refused',
        body: (schema?.body ?? {}) as Shape,
        query: (schema?.querystring ?? {}) as Shape,
        summary,
        hidden: schema?.hide === true,
      })
    }
  })
}

/** Enough of every service to register routes; whatever is called answers another one of itself. */
function inertServices(): Services {
  const config: Services['config'] = {
    production: false,
    publicUrl: 'http://127.0.0.1:8402',
    deposits: false,
    version: '0',
    trustProxy: false,
    operatorToken: { reveal: () => 'x'.repeat(16) },
    rateLimits: true,
    onboardPerHourPerIp: 10,
    bulkOnboardMax: 20,
    exposure: ZERO,
    starterCredits: ZERO,
    promoTransferable: true,
    logLevel: 'silent',
    visitorKey: Buffer.alloc(32),
    fingerprintKey: Buffer.alloc(32),
  }
  const catalogue = createCatalogue({ baseUrl: config.publicUrl, stats: () => null, ports: inert })
  const plane = { redis: null, line: '', bus: inert(), health: inert() }
  const known: Record<string, unknown> = { config, catalogue, plane, clock: systemClock() }
  return new Proxy(known, {
    get: (target, name) => target[String(name)] ?? inert(),
  }) as unknown as Services
}

function inert(): never {
  const anything: unknown = new Proxy(() => {}, {
    get: (_target, name) => (name === 'then' ? undefined : inert()),
    apply: () => inert(),
  })
  return anything as never
}
