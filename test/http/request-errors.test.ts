import { once } from 'node:events'
import { METHODS, request, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import t from 'tap'
import { Type } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { isDatabaseUnavailableError } from '../../http/detect-database-unavailable-error.ts'
import { errorResponses } from '../../http/schemas/shared-schemas.ts'
import { startInProcessTestStation } from '../support/station/start-test-station.ts'
import { createTestServer } from '../support/http/test-fastify-server-with-custom-routes.ts'

const open = { config: { auth: 'none' } } as const
const json = { 'content-type': 'application/json' }

async function house(t: Parameters<typeof createTestServer>[0]) {
  const { app } = await createTestServer(t)
  app.post(
    '/amount',
    {
      ...open,
      schema: {
        body: Type.Object({ usdc: Type.Number(), note: Type.Optional(Type.Unknown()) }),
        querystring: Type.Object({ limit: Type.Optional(Type.Integer({ minimum: 1 })) }),
        response: { 200: Type.Object({ usdc: Type.Number() }), ...errorResponses },
      },
    },
    async ({ body, query }) =>
      ({ usdc: (body as { usdc: number }).usdc, query, leaked: 'column' }) as never,
  )
  app.post('/empty', open, async ({ body }) => ({ body: body ?? null }))
  app.get('/bug', open, async () => {
    throw new TypeError('the password is hunter2')
  })
  app.get('/lost', open, async () => {
    throw Object.assign(new Error('write CONNECTION_CLOSED'), { code: 'CONNECTION_CLOSED' })
  })
  app.get('/refused', { ...open, schema: { response: errorResponses } }, async () => {
    throw new ServiceError('FUSE_TRIPPED', { limit_usdc: 1, status: 200, retry_after: 1.2 })
  })
  return app
}

t.test(
  'an unknown path and a wrong method return different errors, with the permitted methods',
  async (t) => {
    const app = await house(t)
    const nothing = await app.inject('/nothing')
    t.match(nothing, { statusCode: 404, headers: { 'content-type': 'application/problem+json' } })
    t.match(nothing.json(), {
      code: 'not_found',
      error: 'not_found',
      status: 404,
      instance: /^urn:request:/,
    })
    const wrong = await app.inject({ method: 'GET', url: '/amount?x=1' })
    t.match(wrong, { statusCode: 405, headers: { allow: 'POST' } })
    t.equal((await app.inject('/%zz')).statusCode, 400)
  },
)

t.test('no method and no new refusal of Fastify is a bug of the service', async (t) => {
  const app = await house(t)
  app.get(
    '/strange',
    { config: { auth: 'none', ignoresUnknownQuery: true } },
    async ({ query }) => {
      const { status = '418', code = 'FST_ERR_OF_TOMORROW' } = query as Record<string, string>
      throw Object.assign(new Error('a refusal'), { code, statusCode: Number(status) })
    },
  )
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const answerTo = async (method: string, path: string, headers: object = {}) => {
    const sent = request({ port, host: '127.0.0.1', method, path, headers: { ...headers } }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    answer.resume()
    return [answer.statusCode, answer.headers['allow']]
  }
  // CONNECT has no answer in HTTP, HEAD is GET, and OPTIONS is answered for all addresses.
  const methods = METHODS.filter((one) => !['CONNECT', 'HEAD', 'OPTIONS', 'GET'].includes(one))
  for (const method of methods)
    for (const headers of [{}, { 'content-type': 'text/plain', 'content-length': '0' }]) {
      t.strictSame(await answerTo(method, '/nothing', headers), [404, undefined], method)
      t.strictSame(await answerTo(method, '/bug', headers), [405, 'GET, HEAD'], method)
    }
  const [refused, missing, own] = await Promise.all(
    ['?status=418', '?status=404', '?code=UPSTREAM'].map((query) => app.inject(`/strange${query}`)),
  )
  t.match(refused?.json(), { status: 400, code: 'invalid_input', detail: 'a refusal' })
  t.match(missing?.json(), { status: 404, code: 'not_found' })
  t.match(own?.json(), { status: 500 }, 'an error of something else with a status is a bug')
})

t.test('a query that is not percent-encoded UTF-8 is refused, naming its field', async (t) => {
  const app = await house(t)
  const url = (query: string) =>
    app.inject({ method: 'POST', url: `/amount?${query}`, payload: { usdc: 1 } })
  t.match((await url('limit=%E9')).json(), {
    code: 'invalid_input',
    errors: [{ pointer: '/limit', in: 'query' }],
  })
  t.equal((await url('%zz=1')).statusCode, 400)
  t.equal((await url('limit=%31')).statusCode, 200)
})

t.test('a bug returns a bare 500 without internals', async (t) => {
  const reply = await (await house(t)).inject('/bug')
  t.equal(reply.statusCode, 500)
  t.match(reply.json(), { code: 'internal', type: 'http://gas.test/problems/internal' })
  t.notMatch(reply.body, /hunter2|TypeError/)
})

t.test('a lost database is 503 with Retry-After, never the fault of the caller', async (t) => {
  const reply = await (await house(t)).inject('/lost')
  t.match(reply, { statusCode: 503, headers: { 'retry-after': '2' } })
  t.equal(reply.json().code, 'unavailable')
})

t.test('a problem keeps its extension members, which cannot overwrite its status', async (t) => {
  const reply = await (await house(t)).inject('/refused')
  t.match(reply, { statusCode: 403, headers: { 'retry-after': '2' } })
  t.match(reply.json(), { code: 'FUSE_TRIPPED', limit_usdc: 1, status: 403 })
})

t.test('body values are not coerced, and each invalid field is listed', async (t) => {
  const app = await house(t)
  const post = (body: unknown, query = '') =>
    app.inject({
      method: 'POST',
      url: `/amount${query}`,
      headers: json,
      payload: JSON.stringify(body),
    })
  const fine = await post({ usdc: 0.05 }, '?limit=3')
  t.equal(fine.statusCode, 200)
  t.same(fine.json(), { usdc: 0.05 }, 'and undeclared fields do not leave')
  for (const [body, pointer] of [
    [{ usdc: '0.05' }, '/usdc'],
    [{ usdc: null }, '/usdc'],
    [{}, '/usdc'],
    [undefined, '/usdc'],
    [[], ''],
    [null, '/usdc'],
  ] as const) {
    const reply = await post(body)
    t.equal(reply.statusCode, 400, JSON.stringify(body))
    t.equal(reply.json().errors[0].pointer, pointer)
  }
  const query = await post({ usdc: 1 }, '?limit=none')
  t.match(query.json(), { code: 'invalid_input', errors: [{ pointer: '/limit', in: 'query' }] })
})

t.test('a query with forbidden characters is rejected with its field', async (t) => {
  const app = await house(t)
  app.get(
    '/text',
    {
      ...open,
      schema: { querystring: Type.Object({ q: Type.String() }), response: errorResponses },
    },
    async ({ query }) => query as never,
  )
  t.same((await app.inject('/text?q=abc')).json(), { q: 'abc' })
  for (const query of ['q=%00abc', 'q=x&q=a%00', 'other=%00&q=x']) {
    const reply = await app.inject(`/text?${query}`)
    const pointer = query.startsWith('other') ? '/other' : '/q'
    t.match(reply.json(), { code: 'invalid_input', errors: [{ pointer, in: 'query' }] }, query)
  }
})

t.test('only valid JSON is accepted', async (t) => {
  const app = await house(t)
  const post = (payload: string, type = 'application/json') =>
    app.inject({ method: 'POST', url: '/amount', headers: { 'content-type': type }, payload })
  for (const bad of [
    '{"usdc":1',
    'NaN',
    '{"usdc":1e999}',
    '{"usdc":1,"__proto__":{"admin":true}}',
    '{"usdc":1,"constructor":{"prototype":{}}}',
    '{"usdc":1,"note":"\\u0000"}',
    '{"usdc":1,"note":"\\ud800"}',
    `{"usdc":1,"note":${'['.repeat(40)}${']'.repeat(40)}}`,
  ]) {
    const reply = await post(bad)
    t.equal(reply.statusCode, 400, bad)
    t.equal(reply.json().code, 'invalid_input', bad)
  }
  t.equal((await post(`{"usdc":1,"note":${'['.repeat(20)}${']'.repeat(20)}}`)).statusCode, 200)
  t.equal((await post('{"usdc":1}', 'application/json; charset=UTF-8')).statusCode, 200)
  for (const type of [
    'text/plain',
    'application/json; charset=latin1',
    'application/jsonx',
    'multipart/form-data',
  ]) {
    t.equal((await post('{"usdc":1}', type)).statusCode, 415, type)
  }
  const large = await post(JSON.stringify({ usdc: 1, note: 'x'.repeat(300_000) }))
  t.match(large.json(), { status: 413, code: 'body_too_large' })
})

t.test('a POST without a body is accepted where none is required', async (t) => {
  const app = await house(t)
  t.same((await app.inject({ method: 'POST', url: '/empty' })).json(), { body: null })
  t.same((await app.inject({ method: 'POST', url: '/empty', headers: json })).json(), {
    body: null,
  })
})

t.test('any origin may call the API, with preflight responses', async (t) => {
  const { app } = await createTestServer(t)
  app.get('/api/x', open, async () => ({}))
  app.get('/page', open, async () => ({}))
  t.equal((await app.inject('/api/x')).headers['access-control-allow-origin'], '*')
  t.equal((await app.inject('/page')).headers['access-control-allow-origin'], undefined)
  const whole = await app.inject({ url: 'http://station.example/api/x' })
  t.equal(whole.headers['access-control-allow-origin'], '*', 'in absolute form too')
  const preflight = async (url: string, names: string) => {
    const headers = { 'access-control-request-headers': names }
    const { statusCode, headers: sent } = await app.inject({ method: 'OPTIONS', url, headers })
    t.equal(statusCode, 204)
    return String(sent['access-control-allow-headers'] ?? '')
      .toLowerCase()
      .split(', ')
  }
  const harmless =
    'access-control-expose-headers,traceparent,tracestate,baggage,sentry-trace,x-datadog-trace-id,x-amzn-trace-id,if-none-match,x-request-id'
  const allowed = await preflight('/api/x', harmless)
  t.strictSame(
    [...harmless.split(','), 'x-api-key'].filter((name) => !allowed.includes(name)),
    [],
  )
  t.strictSame(await preflight('/page', harmless), [''])
  const others =
    'x-owner-agent,x-csrf-token,x-forwarded-for,x-real-ip,forwarded,cookie,bad name,x:y'
  const names = await preflight('/api/x', others)
  t.strictSame(
    names.filter((name) => others.split(',').includes(name)),
    [],
    'what speaks for a session or a proxy is refused to pages',
  )
})

t.test('the pages of other sites read what is public, and nothing else', async (t) => {
  const { server } = (await startInProcessTestStation(t)).station
  const origin = async (url: string) =>
    (await server.inject({ url, headers: { origin: 'https://app.example' } })).headers[
      'access-control-allow-origin'
    ]
  for (const url of [
    ...['/api/tools', '/openapi.json', '/problems/not_found', '/mcp', '/hivecast/mcp'],
    ...['/discovery/resources', '/discovery/search?query=x', '/.well-known/x402'],
    ...['/.well-known/did.json', '/llms.txt', '/skill.md', '/embed/stats.svg', '/bounties.rss'],
  ])
    t.equal(await origin(url), '*', url)
  for (const url of ['/', '/owner', '/inspector', '/inspector/session', '/metrics', '/fund/x'])
    t.equal(await origin(url), undefined, url)
})

t.test('malformed requests are rejected with the reason', async (t) => {
  const app = await house(t)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as { port: number }
  for (const [bytes, status] of [
    ['nonsense\r\n\r\n', 400],
    [`GET /bug HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`, 431],
  ] as const) {
    const socket = connect(port, '127.0.0.1')
    socket.write(bytes)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    t.match(String(answer), `HTTP/1.1 ${status}`)
    t.match(String(answer), 'application/problem+json')
    socket.destroy()
  }
})

t.test('a lost database is recognised by its error codes, unlike a missing file', async (t) => {
  const error = (fields: object) => Object.assign(new Error('x'), fields)
  for (const code of [
    'CONNECTION_ENDED',
    'CONNECTION_DESTROYED',
    'CONNECT_TIMEOUT',
    '57P01',
    '57P03',
    '53300',
  ]) {
    t.ok(isDatabaseUnavailableError(error({ code })), code)
  }
  t.ok(
    isDatabaseUnavailableError(
      error({ code: 'ENOENT', syscall: 'connect', address: '/run/.s.PGSQL.5432' }),
    ),
  )
  t.ok(isDatabaseUnavailableError(error({ code: 'ECONNREFUSED', syscall: 'connect' })))
  t.ok(
    isDatabaseUnavailableError(
      new AggregateError([error({ code: 'ECONNREFUSED', syscall: 'connect' })]),
    ),
  )
  t.ok(isDatabaseUnavailableError(new Error('outer', { cause: error({ code: '57P01' }) })))
  for (const other of [
    error({ code: 'ENOENT', syscall: 'open' }),
    error({ code: '23505' }),
    new Error('x'),
    null,
  ]) {
    t.notOk(isDatabaseUnavailableError(other))
  }
})

t.test('requests get 503 in time while the database hangs', async (t) => {
  const { app, plane } = await createTestServer(t)
  const bus = { ...plane.bus, isDown: () => true }
  Object.assign(app.services.plane, { bus })
  app.get('/hung', open, () => new Promise(() => {}))
  app.get('/tool', { config: { auth: 'none', rate: 'refuel' } }, async () => {
    await app.inject('/hung')
    return { ran: true }
  })
  const [hung, tool] = await Promise.all([app.inject('/hung'), app.inject('/tool')])
  t.match(hung, { statusCode: 503, headers: { 'retry-after': '2' } })
  t.same(tool.json(), { ran: true }, 'a tool that runs is left alone')
})
