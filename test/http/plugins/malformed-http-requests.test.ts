import { once } from 'node:events'
import { connect, type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { createTestServer } from '../../support/http/test-fastify-server-with-custom-routes.ts'

const LARGE = 'x'.repeat(LIMITS.bodyBytes + 1)

/** A server that records its requests and answers `/later` on command. */
async function house(t: Test) {
  const { app } = await createTestServer(t)
  const seen: unknown[] = []
  let finish: () => void = () => {}
  const asked = new Promise<void>((resolve) => {
    app.post('/later', { config: { auth: 'none' } }, async () => {
      resolve()
      await new Promise<void>((done) => (finish = done))
      return { said: 'later' }
    })
  })
  app.post('/now', { config: { auth: 'none' } }, async ({ body }) => {
    seen.push(body)
    return { said: 'now' }
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  return { app, port, seen, asked, finish: () => finish() }
}

const post = (path: string, body: string, ...more: string[]) =>
  [
    `POST ${path} HTTP/1.1`,
    'host: x',
    'content-type: application/json',
    `content-length: ${body.length}`,
    ...more,
    '',
    body,
  ].join('\r\n')

/** A client that closes when the station does; `all` is everything it has read until then. */
function client(t: Test, port: number) {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  let text = ''
  let failure: unknown = null
  socket.on('error', (error) => (failure = error)).on('data', (data) => (text += data.toString()))
  const all = new Promise<{ statuses: string[]; text: string; failure: unknown }>((resolve) =>
    socket.once('close', () => {
      const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status = '']) => status)
      resolve({ statuses, text, failure })
    }),
  )
  return { socket, all }
}

t.test('a request before malformed bytes is answered first', async (t) => {
  const { app, port, asked, finish } = await house(t)
  const { socket, all } = client(t, port)
  const refused = once(app.server, 'clientError')
  socket.write(`${post('/later', '{}')}nonsense\r\n\r\n`)
  await Promise.all([asked, refused])
  const again = once(app.server, 'clientError')
  socket.write('and more of it')
  await again
  finish()
  t.match(await all, { statuses: ['200', '400'], failure: null, text: /"later"[^]*Bad Request/ })
})

t.test('a last request before malformed bytes is answered too', async (t) => {
  const { app, port, asked, finish } = await house(t)
  const { socket, all } = client(t, port)
  const refused = once(app.server, 'clientError')
  socket.write(`${post('/later', '{}', 'connection: close')}nonsense`)
  await Promise.all([asked, refused])
  finish()
  t.match(await all, { statuses: ['200'], text: /"later"/ })
})

t.test('requests after a final response are not processed', async (t) => {
  const { port, seen } = await house(t)
  const { socket, all } = client(t, port)
  socket.write(`${post('/now', LARGE)}${post('/now', '{}')}`)
  t.match(await all, { statuses: ['413'], failure: null })
  t.strictSame(seen, [], 'the answer could not be delivered')
})

t.test('a large amount of malformed bytes is dropped without parsing', async (t) => {
  const { app, port } = await house(t)
  const { socket, all } = client(t, port)
  let asked = 0
  const ignored = new Promise<void>((resolve) => {
    app.server.on('request', () => (asked += 1) === 2 && resolve())
  })
  const more = 'GET /now HTTP/1.1\r\nhost: x\r\n\r\n'
  socket.write(`${post('/now', LARGE)}${more}`)
  await ignored
  socket.write(more.repeat(200_000))
  t.match(await all, { statuses: ['413'], failure: null })
  t.ok(asked < 10_000, 'what one reading has brought at most')
})

t.test('a request after an invalid JSON body is answered', async (t) => {
  const { port, seen } = await house(t)
  const { socket, all } = client(t, port)
  socket.write(`${post('/now', '{bad')}${post('/now', '{"a":1}', 'connection: close')}`)
  t.match(await all, { statuses: ['400', '200'], failure: null, text: /"invalid_input"/ })
  t.strictSame(seen, [{ a: 1 }])
})

t.test('a request without a Host header gets the reason', async (t) => {
  const { port, seen } = await house(t)
  const { socket, all } = client(t, port)
  socket.write(`${post('/now', '{}', 'connection: close').replace('host: x\r\n', '')}`)
  t.match(await all, { statuses: ['400'], failure: null, text: /The header Host is missing/ })
  t.strictSame(seen, [])
  const old = client(t, port)
  old.socket.write(post('/now', '{}').replace('1.1\r\nhost: x', '1.0'))
  t.match(await old.all, { statuses: ['200'] }, 'HTTP/1.0 knows no such header')
  const two = client(t, port)
  two.socket.write(post('/now', '{}', 'HOST: y', 'connection: close'))
  t.match(await two.all, { statuses: ['400'], text: /Host was sent more than once/ })
})

t.test('a transfer coding beside chunked is refused, and not read as plain', async (t) => {
  const { port, seen } = await house(t)
  const chunked = (coding: string) =>
    post('/now', '', `transfer-encoding: ${coding}`, 'connection: close').replace(
      'content-length: 0\r\n',
      '',
    ) + '2\r\n{}\r\n0\r\n\r\n'
  const { socket, all } = client(t, port)
  socket.write(chunked('gzip, chunked'))
  t.match(await all, { statuses: ['400'], text: /Transfer-Encoding must be chunked/ })
  t.strictSame(seen, [])
  const plain = client(t, port)
  plain.socket.write(chunked('Chunked'))
  t.match(await plain.all, { statuses: ['200'] })
})

t.test('what the parser of HTTP refuses is a problem with a type and a code', async (t) => {
  const { port } = await house(t)
  const { headerBytes } = LIMITS
  const large = `GET /now HTTP/1.1\r\nhost: x\r\nx: ${'x'.repeat(headerBytes)}\r\n\r\n`
  for (const [sent, status, code, more] of [
    [large, '431', 'headers_too_large', { limit_bytes: headerBytes }],
    ['NONSENSE / HTTP/1.1\r\n\r\n', '400', 'invalid_input', { detail: /not valid HTTP: / }],
  ] as const) {
    const { socket, all } = client(t, port)
    socket.write(sent)
    const { statuses, text } = await all
    t.strictSame(statuses, [status])
    const problem = JSON.parse(text.slice(text.indexOf('\r\n\r\n'))) as object
    const type = `http://gas.test/problems/${code}`
    t.match(problem, { type, code, error: code, status: Number(status), ...more })
  }
})
