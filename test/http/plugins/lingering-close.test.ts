import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import t from 'tap'
import { installGracefulHttpServerClose } from '../../../app/finish-http-responses-on-close.ts'
import { LIMITS } from '../../../core/limits.ts'
import { installLingeringClose } from '../../../http/plugins/lingering-close.ts'
import { createNonWebSocketUpgradeIgnorer } from '../../../http/websocket/separate-websocket-from-other-upgrades.ts'
import { createTestServer } from '../../support/http/test-fastify-server-with-custom-routes.ts'

const MIB = 1_048_576
/** More than the system holds between the two ends of a connection. */
const LARGE = Buffer.alloc(24 * MIB, 'x')

/** It may be reset: that is no failure of the waiting. */
const closing = (socket: Socket) => new Promise((resolve) => socket.once('close', resolve))

/** Sends everything before it reads anything, as simple clients do. */
async function sent(port: number, head: string, parts: readonly (Buffer | string)[]) {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  let failure: unknown = null
  socket.on('error', (error) => (failure = error))
  socket.pause()
  socket.write(head)
  for (const part of parts) {
    await new Promise((resolve) => socket.write(part, resolve))
  }
  const closed = closing(socket)
  socket.on('data', (data) => (answer += data.toString())).resume()
  await closed
  return { answer, failure }
}

t.test('a client that sends too much gets the reason', async (t) => {
  const { app } = await createTestServer(t)
  app.post('/small', { config: { auth: 'none' } }, async () => ({}))
  app.post('/mine', { config: { auth: 'key', scope: 'read' } }, async () => ({}))
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const head = (path: string, ...more: string[]) =>
    [`POST ${path} HTTP/1.1`, 'host: x', 'content-type: application/json', ...more, '', ''].join(
      '\r\n',
    )
  const length = `content-length: ${LARGE.length}`
  const chunk = [`${LARGE.length.toString(16)}\r\n`, LARGE, '\r\n0\r\n\r\n']
  const cases = [
    ['its length said', head('/small', length), [LARGE], 413],
    ['in chunks', head('/small', 'transfer-encoding: chunked'), chunk, 413],
    [
      'without a key, on its last request',
      head('/mine', length, 'connection: close'),
      [LARGE],
      413,
    ],
  ] as const
  const header = `POST /small HTTP/1.1\r\nhost: x\r\nx: ${LARGE.toString()}\r\n\r\n`
  t.match(await sent(port, header, []), { failure: null, answer: /^HTTP\/1\.1 431 / })
  for (const [what, text, parts, status] of cases) {
    const { answer, failure } = await sent(port, text, parts)
    t.equal(failure, null, what)
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), what)
    t.match(answer, /"code":"[a-z_]+"/, what)
  }
  t.ok(LARGE.length > LIMITS.bodyBytes)
})

t.test('a client that never stops sending is disconnected', async (t) => {
  const server = createServer((_request, response) => {
    response.writeHead(413, { connection: 'close' }).end()
  })
  installLingeringClose(server, 20)
  t.teardown(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n')
  const sending = setInterval(() => socket.write('x'), 1)
  await closing(socket)
  clearInterval(sending)
  t.pass('it was')
})

t.test('repeated upgrade requests on one connection leak no listeners', async (t) => {
  const server = createServer((_request, response) => response.end('done'))
  installLingeringClose(server)
  createNonWebSocketUpgradeIgnorer(server)
  installGracefulHttpServerClose(server)
  const came = once(server, 'connection')
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const closed = closing(client)
  const [served] = (await came) as [Socket]
  const head = 'GET / HTTP/1.1\r\nhost: x\r\nconnection: '
  const [many, seen] = [20_000, new Set<number>()]
  for (let offers = 0; offers < many; offers += 1) {
    client.write(`${head}upgrade\r\nupgrade: h2c\r\n\r\n`)
    await once(client, 'data')
    seen.add(served.listenerCount('close'))
  }
  client.write(`${head}close\r\n\r\n`)
  await closed
  t.ok(seen.size < 5, 'nothing is kept of an offer')
  server.close()
  await once(server, 'close')
})
