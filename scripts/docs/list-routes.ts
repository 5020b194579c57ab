import { channel } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { ZERO_MICROS } from '../../core/money.ts'
import type { DescribableJsonSchema } from '../../core/validation/describe-json-schema.ts'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { buildHttpServer } from '../../http/http-server.ts'
import { refusesCappedKey } from '../../http/plugins/auth.ts'
import { keptBytesOfRoute } from '../../http/plugins/kept-bytes.ts'
import type { HttpServices } from '../../http/http-config-and-service-types.ts'
import type { RouteAuth, BackpackBoundKeyRouteAccess } from '../../http/fastify-augmentation.ts'
import { createToolCatalogue } from '../../tools/tool-catalogue.ts'

/** One route of the service, as the server registers it. */
export interface RegisteredRoute {
  readonly method: string
  /** With parameters in braces: `/api/task/{id}`. */
  readonly path: string
  readonly auth: RouteAuth
  /** The scope that a key needs; null where it needs none. */
  readonly scope: string | null
  /** What a key bound to a Backpack may do on this route. */
  readonly boundKeyAccess: BackpackBoundKeyRouteAccess | 'refused'
  /** Refuses a key that has a spending cap and is not bound. */
  readonly refusesCappedKey: boolean
  /** What a write of an agent counts against its day, beside its body; 0 for none. */
  readonly keptBytes: number
  /** Calls tools, whose prices or numbers bound them. */
  readonly callsTools: boolean
  readonly summary: string
  /** The body schema of the route. */
  readonly body: DescribableJsonSchema
  readonly query: DescribableJsonSchema
  /** Excluded from the interface: files, the documentation page, preflight responses. */
  readonly hidden: boolean
}

/** Builds the server over inert services and lists its routes. */
export async function listRegisteredRoutes(): Promise<RegisteredRoute[]> {
  const routes: RegisteredRoute[] = []
  const started = channel('fastify.initialization')
  const listen = (message: unknown) =>
    collectRoutes((message as { fastify: FastifyInstance }).fastify, routes)
  started.subscribe(listen)
  try {
    const app = await buildHttpServer(createInertServices())
    await app.ready()
    await app.close()
  } finally {
    started.unsubscribe(listen)
  }
  return routes
}

function collectRoutes(app: FastifyInstance, routes: RegisteredRoute[]): void {
  app.addHook('onRoute', ({ method, url, config, schema }) => {
    const path = url.replace(/:(\w+)/g, '{$1}')
    const summary = schema?.summary ?? ''
    for (const name of [method].flat().filter((one) => one !== 'HEAD' && one !== 'OPTIONS')) {
      routes.push({
        method: name,
        path,
        auth: config?.auth ?? 'none',
        keptBytes: keptBytesOfRoute(name, config ?? {}),
        callsTools: config?.rate === 'refuel' || config?.runsTools === true,
        scope: config?.scope ?? null,
        boundKeyAccess: config?.bound ?? 'refused',
        refusesCappedKey: refusesCappedKey(name, config ?? {}),
        body: (schema?.body ?? {}) as DescribableJsonSchema,
        query: (schema?.querystring ?? {}) as DescribableJsonSchema,
        summary,
        hidden: schema?.hide === true,
      })
    }
  })
}

/** A proxy in place of every service: each call returns another proxy. */
function createInertServices(): HttpServices {
  const config: HttpServices['config'] = {
    production: false,
    publicUrl: 'http://127.0.0.1:8402',
    deposits: false,
    version: '0',
    trustProxy: false,
    operatorToken: { reveal: () => 'x'.repeat(16) },
    operatorContact: null,
    rateLimits: true,
    onboardPerHourPerIp: 10,
    bulkOnboardMax: 20,
    exposure: ZERO_MICROS,
    starterCredits: ZERO_MICROS,
    promoTransferable: true,
    logLevel: 'silent',
    visitorKey: Buffer.alloc(32),
    fingerprintKey: Buffer.alloc(32),
  }
  const catalogue = createToolCatalogue({
    baseUrl: config.publicUrl,
    stats: () => null,
    ports: createInertProxy,
  })
  const plane = {
    redis: null,
    description: '',
    bus: createInertProxy(),
    health: createInertProxy(),
  }
  const known: Record<string, unknown> = {
    config,
    catalogue,
    plane,
    clock: createDatabaseAdjustedClock(),
  }
  return new Proxy(known, {
    get: (target, name) => target[String(name)] ?? createInertProxy(),
  }) as unknown as HttpServices
}

function createInertProxy(): never {
  const anything: unknown = new Proxy(() => {}, {
    get: (_target, name) => (name === 'then' ? undefined : createInertProxy()),
    apply: () => createInertProxy(),
  })
  return anything as never
}
