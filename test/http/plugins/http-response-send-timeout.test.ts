import { EventEmitter, once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { openSseStream } from '../../../http/sse/sse-stream.ts'
import { createTestServer } from '../../support/http/test-fastify-server-with-custom-routes.ts'
import { connectWebSocket as joinSocket } from '../../support/http/websocket-and-sse-clients.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const MIB = 1_048_576
/** More than the system holds between the two ends of a connection. */
const PIECE = 16 * MIB
const LARGE = Buffer.alloc(4 * PIECE, 'x')

/** Ends the time of a connection, by the callback of Node's own timer. */
const timeIsOver = (socket: Socket) => (socket as unknown as { _onTimeout(): void })._onTimeout()

/** A server with answers of every kind, and connections to it with both of their ends. */
async function house(t: Parameters<typeof createTestServer>[0]) {
  const { app } = await createTestServer(t)
  const open = { config: { auth: 'none' } } as const
  const late = new EventEmitter()
  const begun = once(late, 'begun')
  app.get('/large', open, async () => LARGE)
  app.get('/late', open, async () => {
    late.emit('begun')
    await once(late, 'finish')
    return 'at last'
  })
  app.get('/stream', open, async (_request, reply) => {
    openSseStream(reply, { resumes: false }).send('partial', LARGE.toString())
    late.emit('begun')
  })
  const url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  async function ask(...paths: string[]) {
    const accepted = once(app.server, 'connection')
    const reader = connect(Number(url.port), url.hostname).on('error', () => {})
    reader.pause()
    const [socket] = (await accepted) as [Socket]
    const asked = once(app.server, 'request')
    reader.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`).join(''))
    await asked
    t.teardown(() => reader.destroy())
    return { reader, socket }
  }
  return { app, ask, begun, finish: () => late.emit('finish') }
}

/** Waits until at least the given number of bytes has arrived. */
async function read(reader: Socket, bytes: number): Promise<void> {
  reader.resume()
  while (reader.bytesRead < bytes) await once(reader, 'data')
  reader.pause()
}

t.test('a client that reads nothing is disconnected', async (t) => {
  const { app, ask } = await house(t)
  const { socket } = await ask('/large')
  t.equal(socket.timeout, LIMITS.responseIdleTimeoutMs)
  app.server.setTimeout(100)
  for (const paths of [['/large'], ['/health', '/large', '/large']]) {
    const { socket: stalled } = await ask(...paths)
    if (!stalled.closed) await once(stalled, 'close')
    t.equal(stalled.writableLength, 0, 'nothing is held for it')
  }
  t.notOk(socket.destroyed, 'one that has more time')
})

t.test('a slow reader gets the whole response', async (t) => {
  const { ask } = await house(t)
  const { reader, socket } = await ask('/large')
  for (let pieces = 1; pieces <= 3; pieces += 1) {
    await read(reader, pieces * PIECE)
    timeIsOver(socket)
    t.notOk(socket.destroyed)
  }
  await read(reader, LARGE.length)
  t.notOk(socket.destroyed)
})

t.test('a client that stops reading in the middle is disconnected', async (t) => {
  const { ask } = await house(t)
  const { reader, socket } = await ask('/large')
  await read(reader, PIECE)
  while (!socket.closed) {
    timeIsOver(socket)
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(socket.writableLength, 0)
})

t.test('a running call is not disconnected', async (t) => {
  const { ask, begun, finish } = await house(t)
  const { reader, socket } = await ask('/late')
  await begun
  for (let times = 0; times < 3; times += 1) timeIsOver(socket)
  finish()
  const [answer] = (await once(reader.resume(), 'data')) as [Buffer]
  t.match(answer.toString(), /200 OK[^]*at last/)
})

t.test('event streams and WebSockets are exempt', async (t) => {
  const { ask, begun } = await house(t)
  const { socket } = await ask('/stream')
  await begun
  t.ok(socket.writableLength > 0)
  for (let times = 0; times < 3; times += 1) timeIsOver(socket)
  t.notOk(socket.destroyed)

  const main = await startInProcessTestStation(t)
  const { key } = await main.onboard()
  const accepted = once(main.station.server.server, 'connection')
  const client = await joinSocket(t, main.url, { key })
  const [upgraded] = (await accepted) as [Socket]
  t.equal(upgraded.timeout, 0)
  timeIsOver(upgraded)
  t.match(await client.ask({ type: 'ping' }), { type: 'pong' })
})
