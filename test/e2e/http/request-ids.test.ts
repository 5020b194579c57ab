import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** Every answer names its request, so that its caller can ask the operator about it. */

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const main = await startInProcessTestStation(t)
const her = await main.onboard()
const { key } = her

interface Seen {
  readonly status: number
  readonly id: string | undefined
  readonly instance?: unknown
}

/** Offers a WebSocket and returns what the server answers. */
function upgrade(path: string, headers: Record<string, string> = {}): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const asked = request(`${main.url}${path}`, {
      agent: false,
      headers: {
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
        'sec-websocket-version': '13',
        ...headers,
      },
    })
    const told = async (answer: IncomingMessage) => {
      const id = answer.headers['x-request-id'] as string | undefined
      const status = answer.statusCode ?? 0
      if (status === 101) return resolve({ status, id })
      let text = ''
      for await (const chunk of answer) text += String(chunk)
      const { instance } = JSON.parse(text) as { instance?: unknown }
      resolve({ status, id, instance })
    }
    asked.on('response', (answer) => void told(answer))
    asked.on('upgrade', (answer, socket) => {
      socket.destroy()
      void told(answer)
    })
    asked.on('error', reject)
    asked.end()
  })
}

/** Sends bytes and returns the whole answer. */
function raw(bytes: string): Promise<string> {
  const { hostname, port } = new URL(main.url)
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    socket.on('data', (data) => (text += data.toString()))
    socket.on('error', () => {})
    socket.on('close', () => resolve(text))
  })
}

t.test('answers, errors and streams have a request id of their own', async (t) => {
  const { headers } = await main.ask('GET', '/api/tools')
  const known = { 'if-none-match': String(headers['etag']) }
  const asked: [number, string, string, object?][] = [
    [200, 'GET', '/'],
    [200, 'GET', '/api/network/health'],
    [200, 'GET', '/docs/'],
    [204, 'OPTIONS', '/api/refuel'],
    [304, 'GET', '/api/tools', { headers: known }],
    [400, 'POST', '/api/refuel', { key, raw: '{' }],
    [400, 'GET', '/api/%zz'],
    [401, 'GET', '/api/keys'],
    [402, 'POST', '/api/refuel', { json: { tool: 'agent_see', url: 'https://example.com' } }],
    [404, 'GET', '/nowhere'],
    [405, 'DELETE', '/api/tools'],
    [413, 'POST', '/api/onboard', { raw: 'x'.repeat(300_000) }],
    [415, 'POST', '/api/onboard', { raw: 'x', headers: { 'content-type': 'text/plain' } }],
    [200, 'POST', '/api/refuel/stream', { key, json: { tool: 'hive_trending' } }],
    [426, 'GET', '/api/ws', { key }],
  ]
  const ids = new Set<string>()
  for (const [status, method, path, options = {}] of asked) {
    const answer = await main.ask(method, path, options)
    const id = String(answer.headers['x-request-id'])
    t.equal(answer.status, status, `${method} ${path}`)
    t.match(id, UUID, `${method} ${path} ${status}`)
    if (status >= 400) t.equal(answer.body['instance'], `urn:request:${id}`)
    ids.add(id)
  }
  t.equal(ids.size, asked.length, 'each of its own')
  const own = await main.ask('GET', '/', { headers: { 'x-request-id': 'chosen-by-the-caller' } })
  t.match(own.headers['x-request-id'], UUID, 'a caller cannot choose it')
})

t.test('a WebSocket and a refused one have it', async (t) => {
  t.match(await upgrade('/api/ws', { 'x-api-key': key }), { status: 101, id: UUID })
  for (const [path, headers, status] of [
    ['/api/ws', { 'x-api-key': 'gas_wrong' }, 401],
    ['/nowhere', {}, 404],
    ['/api/ws', { 'sec-websocket-version': '7' }, 400],
    ['/api/ws', { 'sec-websocket-key': 'short' }, 400],
  ] as const) {
    const { id, instance, ...told } = await upgrade(path, headers)
    t.equal(told.status, status, path)
    t.match(id, UUID)
    t.equal(instance, `urn:request:${id}`)
  }
})

t.test('input that never becomes a request has it', async (t) => {
  for (const bytes of ['NONSENSE\r\n\r\n', `GET / HTTP/1.1\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`]) {
    const answer = await raw(bytes)
    const [, id] = /^X-Request-Id: (\S+)\r$/m.exec(answer) ?? []
    t.match(answer, /^HTTP\/1\.1 4/)
    t.match(id, UUID)
    t.match(answer, `"instance":"urn:request:${id}"`)
  }
})
