import { once } from 'node:events'
import { connect, type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createTestServer } from '../../support/http/test-fastify-server-with-custom-routes.ts'

const MIB = 1_048_576
/** Four of them are more than the system holds between the two ends of a connection. */
const LARGE = Buffer.alloc(4 * MIB, 'x')
/** What one reading of a connection brings at most. */
const CHUNK_BYTES = 65_536
const IN_PROGRESS = 16
const WAITING = 64

const get = (path: string, ...more: string[]) =>
  [`GET ${path} HTTP/1.1`, 'host: x', ...more, '', ''].join('\r\n')

/** A server that counts what it starts, and answers `/held` only after `release`. */
async function serve(t: Test) {
  const { app } = await createTestServer(t)
  const started: string[] = []
  const held: (() => void)[] = []
  let parsed = 0
  const open = { config: { auth: 'none' } } as const
  app.get('/large', open, async () => {
    started.push('large')
    return LARGE
  })
  app.get('/held/:number', open, async ({ params }) => {
    const { number } = params as { number: string }
    started.push(number)
    await new Promise<void>((resolve) => held.push(resolve))
    return { number }
  })
  app.get('/quick/:number', open, async ({ params }) => {
    const { number } = params as { number: string }
    started.push(number)
    return { number }
  })
  app.post('/echo', open, async ({ body }) => body)
  app.get('/last', open, async (_request, reply) => reply.header('connection', 'close').send('end'))
  await app.listen({ host: '127.0.0.1', port: 0 })
  app.server.on('request', () => (parsed += 1))
  const { port } = app.server.address() as AddressInfo

  /** A client that reads only after `resume`; `text` is what it has read. */
  function client() {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    t.teardown(() => socket.destroy())
    let text = ''
    socket.on('data', (data) => (text += data.toString('latin1'))).pause()
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    return { socket, closed, text: () => text }
  }

  /** So many answers to another connection: the server has had that many turns and more. */
  async function others(answers = 50): Promise<void> {
    const { socket } = client()
    socket.resume()
    for (let each = 0; each < answers; each += 1) {
      socket.write(get('/none'))
      await once(socket, 'data')
    }
    socket.destroy()
  }
  const release = () => held.splice(0).forEach((resolve) => resolve())
  return { app, started, parsed: () => parsed, client, others, release, held }
}

/** Until it holds. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1))
}

const numbersIn = (text: string) =>
  [...text.matchAll(/\{"number":"(\d+)"\}/g)].map(([, number]) => Number(number))

t.test('few requests start for a client that does not read', async (t) => {
  const { started, client, others } = await serve(t)
  const { socket, text } = client()
  socket.write(get('/large').repeat(30))
  await until(() => started.length > 0)
  await others()
  const unread = started.length
  t.ok(unread <= 4, `${unread} of 30 have started`)
  await others()
  t.equal(started.length, unread, 'and no more of them later')
  socket.resume()
  await until(() => text().length >= 30 * LARGE.length)
  t.equal(started.length, 30, 'all of them for one that reads')
  t.equal(text().match(/HTTP\/1\.1 200 OK/g)?.length, 30)
})

t.test('a connection has so many requests in progress, answered in their order', async (t) => {
  const { started, client, others, release, held } = await serve(t)
  const { socket, text } = client()
  const all = Array.from({ length: 60 }, (_, number) => number)
  socket.resume().write(all.map((number) => get(`/held/${number}`)).join(''))
  await until(() => held.length === IN_PROGRESS)
  await others()
  t.equal(started.length, IN_PROGRESS)
  while (numbersIn(text()).length < all.length) {
    release()
    await new Promise((resolve) => setImmediate(resolve))
    t.ok(held.length <= IN_PROGRESS)
  }
  t.strictSame(numbersIn(text()), all)
  t.strictSame(started.map(Number), all)
})

t.test('little is read from a client whose answers wait', async (t) => {
  const { parsed, client, others, release, held } = await serve(t)
  const { socket, text } = client()
  const request = get('/held/1')
  const many = 20_000
  t.ok(many * request.length > 4 * CHUNK_BYTES)
  socket.resume().write(request.repeat(many))
  await until(() => held.length === IN_PROGRESS)
  await others()
  const most = WAITING + 2 * Math.ceil(CHUNK_BYTES / request.length)
  const before = parsed()
  t.ok(before < most + 100, `${before} of ${many} have been read`)
  let answered = 0
  let seen = 0
  while (answered < many) {
    release()
    await new Promise((resolve) => setImmediate(resolve))
    const fresh = text().slice(seen)
    const end = fresh.lastIndexOf('}') + 1
    seen += end
    answered += numbersIn(fresh.slice(0, end)).length
  }
  t.equal(answered, many, 'all are answered')
})

t.test('one request on another connection overtakes those that wait', async (t) => {
  const { app, started, client } = await serve(t)
  const [busy, other] = [client(), client()]
  await Promise.all([once(busy.socket, 'connect'), once(other.socket, 'connect')])
  const many = 1_000
  busy.socket.resume().write(get('/quick/1').repeat(many))
  await once(app.server, 'request')
  other.socket.resume().write(get('/quick/2'))
  await until(() => started.length === many + 1)
  t.ok(started.indexOf('2') < many / 2, `${started.indexOf('2')} came before it`)
})

t.test(
  'few of them start in one turn of the event loop, on however many connections',
  async (t) => {
    const { started, client, held } = await serve(t)
    const clients = Array.from({ length: 40 }, client)
    await Promise.all(clients.map(({ socket }) => once(socket, 'connect')))
    let [most, before] = [0, 0]
    const stop = new AbortController()
    const count = () => {
      const behind = started.length - held.length
      most = Math.max(most, behind - before)
      before = behind
      if (!stop.signal.aborted) setImmediate(count)
    }
    count()
    const pipelined = `${get('/held/1')}${get('/quick/1').repeat(IN_PROGRESS)}`
    for (const { socket } of clients) socket.resume().write(pipelined)
    await until(() => started.length === clients.length * IN_PROGRESS)
    stop.abort()
    t.ok(most <= 2 * IN_PROGRESS, `${most} at most`)
  },
)

t.test('the last answer ends the connection, whatever waits behind it', async (t) => {
  const { started, client } = await serve(t)
  const { socket, closed, text } = client()
  socket.resume().write(`${get('/quick/1')}${get('/last')}${get('/quick/2').repeat(500)}`)
  await closed
  t.ok(started.length <= IN_PROGRESS, 'what started beside it')
  t.equal(text().match(/HTTP\/1\.1 200 OK/g)?.length, 2)
})

t.test('a client that goes takes its waiting requests along', async (t) => {
  const { started, client, others, release, held } = await serve(t)
  const { socket, closed } = client()
  socket.write(get('/held/1').repeat(40))
  await until(() => held.length === IN_PROGRESS)
  socket.destroy()
  await closed
  release()
  await others()
  t.equal(started.length, IN_PROGRESS)
})

t.test('bodies of waiting requests arrive whole', async (t) => {
  const { client, release, held } = await serve(t)
  const { socket, text } = client()
  const bodies = Array.from({ length: 5 }, (_, at) =>
    JSON.stringify({ at, text: 'y'.repeat(200_000) }),
  )
  const post = (body: string) =>
    `POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  socket.resume().write(`${get('/held/1')}${bodies.map(post).join('')}`)
  await until(() => held.length === 1)
  await new Promise((resolve) => setImmediate(resolve))
  release()
  await until(() => bodies.every((body) => text().includes(body)))
  t.ok(text().indexOf(bodies[0] ?? '') < text().indexOf(bodies[4] ?? ''))
})

t.test('a closing server answers what waits, and ends', async (t) => {
  const { app, client, release, held } = await serve(t)
  const { socket, closed, text } = client()
  socket.resume().write(get('/held/1').repeat(40))
  await until(() => held.length === IN_PROGRESS)
  const ended = app.close()
  await new Promise((resolve) => setImmediate(resolve))
  release()
  await Promise.all([ended, closed])
  const statuses = [...text().matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status)
  t.strictSame(statuses, [...Array.from({ length: IN_PROGRESS }, () => '200'), '503'])
})
