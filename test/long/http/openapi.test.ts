import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv } from 'ajv'
import t from 'tap'
import { ERROR_DEFINITIONS, type ErrorCode } from '../../../core/errors.ts'
import { buildHttpServer } from '../../../http/http-server.ts'
import { VERSION } from '../../../app/version.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { createTestServer } from '../../support/http/test-fastify-server-with-custom-routes.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

interface Media {
  schema: { $ref?: string }
  example?: unknown
  examples?: object
}

interface Operation {
  operationId: string
  summary: string
  tags: string[]
  security: object[]
  responses: Record<string, { $ref?: string; content?: Record<string, Media> }>
  parameters?: { $ref?: string; name: string; in: string; description?: string }[]
  requestBody?: { content: Record<string, Media> }
}

/** Operations that answer 201, with their aliases; all others answer 200. */
const CREATING = new Set([
  'post /api/onboard',
  'post /api/agents/register',
  'post /api/referrals/create',
  'post /api/tools/register',
  'post /api/tools/import',
  'post /api/hive/write',
  'post /api/bounties',
  'post /api/manifesto/sign',
  'post /api/task/passes/buy',
])

/** They take messages of MCP: 202 without an answer, and errors of JSON-RPC. */
const MESSAGING = new Set(['post /mcp', 'post /hivecast/mcp'])

/** A second request of the same agent changes nothing and answers 200. */
const ONCE = new Set(['post /api/manifesto/sign'])

/** Its success is 101: the connection becomes a WebSocket. */
const UPGRADING = 'get /api/ws'

const { station } = await startInProcessTestStation(t)
const { server } = station

/** A server over inert services, whose health a test may change. */
async function whole(t: Parameters<typeof createTestServer>[0]) {
  const { services } = await createTestServer(t)
  const app = await buildHttpServer(services)
  t.teardown(() => app.close())
  return app
}

t.test('the document is valid OpenAPI 3.1, the same at both addresses', async (t) => {
  const [first, second] = await Promise.all(
    ['/api/openapi.json', '/openapi.json'].map((url) => server.inject(url)),
  )
  t.equal(first?.body, second?.body)
  const document = first?.json() as {
    openapi: string
    info: { version: string }
    paths: Record<string, Record<string, Operation>>
  }
  t.equal(document.openapi, '3.1.0')
  t.equal(document.info.version, VERSION)
  const sdk = JSON.parse(readFileSync(join(REPOSITORY_ROOT, 'sdk/package.json'), 'utf8')) as object
  t.match(sdk, { version: VERSION }, 'the client library has the same version')
  t.match(await new Validator().validate(structuredClone(document)), { valid: true })

  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      at: `${method} ${path}`,
      method,
      ...operation,
    })),
  )
  t.ok(operations.length > 40)
  t.equal(new Set(operations.map(({ operationId }) => operationId)).size, operations.length)
  for (const { at, method, summary, tags, responses, parameters = [] } of operations) {
    t.ok(summary && tags.length > 0, `${at} says what it is`)
    const refusal = MESSAGING.has(at) ? 'McpRefused' : 'Refused'
    t.equal(responses['4XX']?.$ref, `#/components/responses/${refusal}`, `${at} can refuse`)
    if (method === 'get') continue
    t.ok(
      parameters.some(({ $ref }) => $ref === '#/components/parameters/IdempotencyKey'),
      `${at} may be repeated`,
    )
  }
  const security = (at: string) => operations.find((operation) => operation.at === at)?.security
  t.same(security('get /api/keys'), [{ ApiKey: [] }, { Bearer: [] }, { OwnerSession: [] }])
  t.same(security('post /api/agent/send'), [{ ApiKey: [] }, { Bearer: [] }])
  t.same(security('post /api/refuel'), [{}, { ApiKey: [] }, { Bearer: [] }])
  t.same(security('post /api/onboard'), [])
})

t.test('a success is 200, and 201 only where the interface defines it', async (t) => {
  const { paths } = (await server.inject('/api/openapi.json')).json() as {
    paths: Record<string, Record<string, Operation>>
  }
  for (const [path, methods] of Object.entries(paths))
    for (const [method, { responses }] of Object.entries(methods)) {
      const at = `${method} ${path}`
      if (at === UPGRADING) continue
      const successes = Object.keys(responses).filter((status) => status < '400')
      const expected = MESSAGING.has(at)
        ? ['200', '202']
        : ONCE.has(at)
          ? ['200', '201']
          : [CREATING.has(at) ? '201' : '200']
      t.strictSame(successes, expected, at)
    }
})

t.test('every parameter and every field of a request has a description', async (t) => {
  const { paths, components } = server.openApiDocument()
  const silent: string[] = []
  for (const [path, methods] of Object.entries(paths))
    for (const { parameters = [], requestBody } of Object.values(methods)) {
      for (const one of parameters)
        if ('name' in one && !one.description) silent.push(`${path} ${one.name}`)
      const { $ref } = requestBody?.content['application/json']?.schema ?? {}
      const body = components.schemas[String($ref).replace(/^.*\//, '')]
      const fields = (body?.['properties'] ?? {}) as Record<string, object>
      for (const [name, field] of Object.entries(fields))
        if (!('description' in field) && !('$ref' in field)) silent.push(`${path} ${name}`)
    }
  t.strictSame(silent, [])
})

t.test('every schema of a route is valid against the meta schema', async (t) => {
  const document = (await server.inject('/api/openapi.json')).json() as object
  const ajv = new Ajv({ strict: false })
  const schemas = [...schemasIn(document)]
  t.ok(schemas.length > 200)
  for (const [at, schema] of schemas)
    if (ajv.validateSchema(schema) !== true) t.fail(`${at}: ${ajv.errorsText()}`)
  t.not(ajv.validateSchema({ type: 'string', minLength: -1 }), true)
})

/** Everything that a document calls a schema. */
function* schemasIn(value: object, at = ''): Generator<[at: string, schema: object]> {
  for (const [name, inner] of Object.entries(value)) {
    if (typeof inner !== 'object' || inner === null) continue
    if (name === 'schema') yield [at, inner as object]
    else yield* schemasIn(inner as object, `${at}/${name}`)
  }
}

t.test('every schema compiles, although a start defers that', async (t) => {
  const app = await whole(t)
  await t.resolves(app.warm())
})

t.test('the type of every problem is an address that explains it', async (t) => {
  for (const code of Object.keys(ERROR_DEFINITIONS) as ErrorCode[]) {
    const reply = await server.inject(`/problems/${code}`)
    t.match(reply.json(), {
      code,
      status: ERROR_DEFINITIONS[code].status,
      title: ERROR_DEFINITIONS[code].title,
    })
  }
  t.equal((await server.inject('/problems/constructor')).statusCode, 404)
})

t.test('the root document describes the service, and all its links resolve', async (t) => {
  const reply = await server.inject('/')
  t.match(reply, {
    statusCode: 200,
    headers: { 'content-type': /json/, link: '</api/openapi.json>; rel="service-desc"' },
  })
  const { name, version, links } = reply.json() as {
    name: string
    version: string
    links: Record<string, string>
  }
  t.strictSame([name, version], ['Gas Station', VERSION])
  t.strictSame(Object.keys(links).sort(), ['docs', 'health', 'mcp', 'onboard', 'openapi', 'tools'])
  for (const [what, link] of Object.entries(links)) {
    const { origin, pathname } = new URL(link)
    t.equal(origin, 'http://gas.test', what)
    const { statusCode } = await server.inject(pathname)
    t.notOk([404, 405].includes(statusCode), what)
  }
  t.equal((await server.inject({ method: 'POST', url: '/' })).statusCode, 405)
})

t.test('health names failing parts, and returns 503 only when Postgres is down', async (t) => {
  const app = await whole(t)
  const well = await app.inject('/api/network/health')
  t.equal(well.statusCode, 200)
  t.match(well.json(), {
    status: 'ok',
    degraded_dependencies: [],
    dependencies: { postgres: { ok: true }, redis: { ok: true, kind: 'none' } },
    version: '0.0.0',
    plane: /^postgres=(?:url|embedded) redis=none$/,
  })
  t.notMatch(well.body, /\(socket|\/tmp|\d ms/, 'strangers are told no place and no version')
  const postgres = { ok: true, kind: 'url' }
  const redis = { ok: false, kind: 'url' as const }
  const { plane } = app.services
  Object.assign(plane, { health: async () => ({ postgres, redis }) })
  t.match(await app.inject('/api/network/health'), { statusCode: 200 })
  t.match((await app.inject('/api/network/health')).json(), {
    status: 'degraded',
    degraded_dependencies: ['redis'],
  })
  Object.assign(plane, { health: () => new Promise(() => {}) })
  const hung = await app.inject('/api/network/health')
  t.equal(hung.statusCode, 503)
  t.match(hung.json(), { status: 'degraded', dependencies: { postgres: { ok: false } } })
})

t.test('requests are measured by route, never by path', async (t) => {
  const app = await whole(t)
  await app.inject('/problems/REVOKED')
  const { body } = await app.inject('/metrics')
  t.match(
    body,
    'http_request_duration_seconds_count{route="/problems/:code",method="GET",status="2xx"} 1',
  )
  t.notMatch(body, '/problems/REVOKED')
})
