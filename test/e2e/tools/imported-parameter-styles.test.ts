import t from 'tap'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** What an imported operation sends for each way that OpenAPI writes a parameter. */

const LIST = ['a', 'b c']
const COLOR = { R: 100, G: 'x,y' }
type Where = 'path' | 'query' | 'header'
/** Style, explode, value, and the address or header that arrives; the parameter is called `p`. */
const ROWS: readonly [Where, object, unknown, string][] = [
  ['path', {}, 'a b', '/v/a%20b'],
  ['path', {}, LIST, '/v/a,b%20c'],
  ['path', { explode: true }, LIST, '/v/a,b%20c'],
  ['path', {}, COLOR, '/v/R,100,G,x%2Cy'],
  ['path', { explode: true }, COLOR, '/v/R=100,G=x%2Cy'],
  ['path', { style: 'label' }, 'a', '/v/.a'],
  ['path', { style: 'label' }, LIST, '/v/.a,b%20c'],
  ['path', { style: 'label', explode: true }, LIST, '/v/.a.b%20c'],
  ['path', { style: 'label' }, COLOR, '/v/.R,100,G,x%2Cy'],
  ['path', { style: 'label', explode: true }, COLOR, '/v/.R=100.G=x%2Cy'],
  ['path', { style: 'matrix' }, 'a', '/v/;p=a'],
  ['path', { style: 'matrix' }, LIST, '/v/;p=a,b%20c'],
  ['path', { style: 'matrix', explode: true }, LIST, '/v/;p=a;p=b%20c'],
  ['path', { style: 'matrix' }, COLOR, '/v/;p=R,100,G,x%2Cy'],
  ['path', { style: 'matrix', explode: true }, COLOR, '/v/;R=100;G=x%2Cy'],
  ['query', {}, 'a&b=c', '/v?p=a%26b%3Dc'],
  ['query', {}, '', '/v?p='],
  ['query', {}, true, '/v?p=true'],
  ['query', {}, LIST, '/v?p=a&p=b%20c'],
  ['query', { explode: false }, LIST, '/v?p=a,b%20c'],
  ['query', {}, COLOR, '/v?R=100&G=x%2Cy'],
  ['query', { explode: false }, COLOR, '/v?p=R,100,G,x%2Cy'],
  ['query', {}, [], '/v'],
  ['query', { style: 'spaceDelimited', explode: false }, LIST, '/v?p=a%20b%20c'],
  ['query', { style: 'spaceDelimited' }, ['a', 'b'], '/v?p=a%20b'],
  ['query', { style: 'spaceDelimited', explode: true }, LIST, '/v?p=a&p=b%20c'],
  ['query', { style: 'pipeDelimited' }, ['a', 'b|c'], '/v?p=a%7Cb%7Cc'],
  ['query', { style: 'pipeDelimited', explode: true }, LIST, '/v?p=a&p=b%20c'],
  ['query', { style: 'pipeDelimited' }, COLOR, '/v?p=R%7C100%7CG%7Cx%2Cy'],
  ['query', { style: 'deepObject', explode: true }, COLOR, '/v?p%5BR%5D=100&p%5BG%5D=x%2Cy'],
  [
    'query',
    { style: 'deepObject' },
    { a: { b: 1 }, c: LIST },
    '/v?p%5Ba%5D%5Bb%5D=1&p%5Bc%5D=a&p%5Bc%5D=b%20c',
  ],
  ['query', { allowReserved: true }, '/x?y:z,1;(2)', '/v?p=/x?y:z,1;(2)'],
  ['query', { allowReserved: true }, 'a&b=c#d+e%2F', '/v?p=a%26b%3Dc%23d%2Be%2F'],
  [
    'query',
    { content: { 'application/json': { schema: {} } } },
    { a: [1] },
    '/v?p=%7B%22a%22%3A%5B1%5D%7D',
  ],
  ['path', { content: { 'application/json': {} } }, ['a'], '/v/%5B%22a%22%5D'],
  ['header', {}, LIST, 'a,b c'],
  ['header', {}, COLOR, 'R,100,G,x,y'],
  ['header', { explode: true }, COLOR, 'R=100,G=x,y'],
  ['header', { content: { 'application/json': {} } }, { a: 1 }, '{"a":1}'],
]
const NAME = { path: 'p', query: 'p', header: 'X-P' } as const

const operation = ([where, how]: (typeof ROWS)[number], n: number) => ({
  operationId: `row${n}`,
  parameters: [
    {
      name: NAME[where],
      in: where,
      required: where === 'path',
      ...('content' in how ? {} : { schema: {} }),
      ...how,
    },
  ],
  responses: {},
})
const server = (url: string, variables: object = {}) => [{ url, variables }]
const ver = { ver: { default: 'v3' }, unused: { default: 1 } }
const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Styles', version: '1' },
  servers: server('https://evil.example/{ver}', ver),
  paths: {
    ...Object.fromEntries(
      ROWS.map((row, n) => [
        `/${n}/v${row[0] === 'path' ? '/{p}' : ''}`,
        { get: operation(row, n) },
      ]),
    ),
    '/item': { servers: server('/item-{ver}', ver), get: { operationId: 'item', responses: {} } },
    '/own': {
      servers: server('/never'),
      get: {
        operationId: 'own',
        servers: server('/{a}{b}', { a: { default: 'x' } }),
        responses: {},
      },
    },
    '/odd': {
      get: {
        operationId: 'odd',
        parameters: [{ name: 'p', in: 'query', style: 'matrix' }],
        responses: {},
      },
    },
  },
}

t.test('parameters are written as their style says', async (t) => {
  const asked: { url: string; header: unknown }[] = []
  const site = await startFixtureServer(t, (request, response) => {
    if (request.url === '/openapi.json') return sendJsonFixture(response, DOCUMENT)
    asked.push({ url: request.url ?? '', header: request.headers['x-p'] })
    sendJsonFixture(response, {})
  })
  const OPERATOR_TOKEN = 'o'.repeat(32)
  const station = await startInProcessTestStation(t, {
    SSRF_ALLOW: `127.0.0.1:${site.port}`,
    OPERATOR_TOKEN,
  })
  const [seller, buyer] = [await station.onboard(), await station.onboard()]
  await insertArrivedDeposit(station, buyer.id, 5)
  const run = (include: readonly string[]) =>
    station.ask('POST', '/api/tools/import', {
      key: seller.key,
      headers: { 'x-operator-token': OPERATOR_TOKEN },
      json: { openapi_url: `${site.base}/openapi.json`, price_per_call_usdc: 0.001, include },
    })
  const rows = ROWS.map((_, n) => `row${n}`)
  t.match(await run([...rows, 'item', 'own']), { status: 201, body: { count: ROWS.length + 2 } })
  t.match(await run(['odd']), { status: 422, body: { code: 'import_refused', operation: 'odd' } })
  const call = async (slug: string, json: object) => {
    const reply = await station.ask('POST', `/api/tools/styles-${slug}/invoke`, {
      key: buyer.key,
      json,
    })
    t.equal(reply.status, 200, reply.text)
    return asked.pop()
  }
  for (const [n, [where, how, value, expected]] of ROWS.entries()) {
    const sent = await call(`row${n}`, { [where === 'header' ? 'X_P' : 'p']: value })
    const name = `${where} ${JSON.stringify(how)} ${JSON.stringify(value)}`
    if (where === 'header') t.equal(sent?.header, expected, name)
    else t.equal(sent?.url, `/v3/${n}${expected}`, name)
  }
  t.equal((await call('item', {}))?.url, '/item-v3/item', 'servers of a path')
  t.equal(
    (await call('own', {}))?.url,
    '/x%7Bb%7D/own',
    'servers of an operation; b has no default',
  )
})
