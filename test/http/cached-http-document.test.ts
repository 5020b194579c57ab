import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { createCachedDocumentHandler } from '../../http/cached-http-document.ts'
import { createTestServer } from '../support/http/test-fastify-server-with-custom-routes.ts'

const DECODERS = {
  gzip: gunzipSync,
  br: brotliDecompressSync,
  identity: (bytes: Buffer) => bytes,
} as const

/** A server with one document, whose figures and time the test sets. */
async function serve(t: Test) {
  let later = 0
  const clock = { ...createDatabaseAdjustedClock(), mono: () => performance.now() + later }
  const { app } = await createTestServer(t, {}, clock)
  const figures = { calls: 1, list: Array.from({ length: 1_000 }, () => 'the same text') }
  let reads = 0
  const read = () => {
    reads += 1
    return figures
  }
  app.get('/document', { config: { auth: 'none' } }, createCachedDocumentHandler({ clock, read }))
  const get = (headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') =>
    app.inject({ method, url: '/document', headers })
  return { get, figures, reads: () => reads, pass: (ms: number) => (later += ms) }
}

t.test('a document is sent in the best coding that its reader accepts', async (t) => {
  const { get, figures, reads } = await serve(t)
  const cases = [
    [undefined, 'identity'],
    ['', 'identity'],
    ['gzip, deflate, br', 'br'],
    ['gzip', 'gzip'],
    ['x-gzip', 'gzip'],
    ['GZIP;q=1.0', 'gzip'],
    ['br;q=0.5, gzip', 'gzip'],
    ['br;q=0, gzip;q=0', 'identity'],
    ['*', 'br'],
    ['*;q=0, gzip;q=0.1', 'gzip'],
    ['identity, gzip;q=0.5', 'identity'],
    ['deflate', 'identity'],
    ['gzip;q=nonsense', 'identity'],
  ] as const
  const tags = new Map<string, unknown>()
  for (const [accepted, coding] of cases) {
    const reply = await get(accepted === undefined ? {} : { 'accept-encoding': accepted })
    const { headers, rawPayload } = reply
    t.equal(headers['content-encoding'] ?? 'identity', coding, String(accepted))
    t.strictSame(JSON.parse(DECODERS[coding](rawPayload).toString()), figures, String(accepted))
    t.equal(headers['content-length'], String(rawPayload.length))
    t.match(headers, { vary: 'Accept-Encoding', 'content-type': /^application\/json/ })
    t.equal(tags.get(coding) ?? headers.etag, headers.etag, 'the tag stays')
    tags.set(coding, headers.etag)
  }
  t.equal(new Set(tags.values()).size, 3, 'each coding has its own tag')
  t.equal(reads(), 1)
})

t.test('a reader that has it gets 304', async (t) => {
  const { get } = await serve(t)
  const { headers, body } = await get()
  const { etag } = (await get({ 'accept-encoding': 'gzip' })).headers
  const tag = String(headers.etag)
  for (const known of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
    const reply = await get({ 'if-none-match': known })
    t.match(reply, { statusCode: 304, body: '', headers: { etag: tag, vary: 'Accept-Encoding' } })
    t.notOk('content-length' in reply.headers || 'content-encoding' in reply.headers)
  }
  for (const other of ['"other"', String(etag), tag.slice(1, -1), ''])
    t.match(await get({ 'if-none-match': other }), { statusCode: 200, body }, other)
  const zipped = { 'accept-encoding': 'gzip', 'if-none-match': String(etag) }
  t.match(await get(zipped), { statusCode: 304, headers: { etag } })
})

t.test('HEAD answers as GET, without the document', async (t) => {
  const { get } = await serve(t)
  for (const headers of [{}, { 'accept-encoding': 'br' }] as const) {
    const [whole, head] = [await get(headers), await get(headers, 'HEAD')]
    const named = ({ headers: { date: _date, 'x-request-id': _id, ...rest } }: typeof whole) => rest
    t.strictSame(named(head), named(whole))
    t.equal(head.body, '')
    const known = { ...headers, 'if-none-match': String(whole.headers.etag) }
    t.match(await get(known, 'HEAD'), {
      statusCode: 304,
      body: '',
      headers: { 'content-length': whole.headers['content-length'] },
    })
  }
})

t.test('it is read again after five seconds, and its tag follows its text', async (t) => {
  const { get, figures, reads, pass } = await serve(t)
  const tag = (await get()).headers.etag
  figures.calls = 2
  t.match(await get({ 'if-none-match': String(tag) }), { statusCode: 304 }, 'within five seconds')
  t.equal(reads(), 1)
  pass(5_000)
  const [changed, zipped] = await Promise.all([get(), get({ 'accept-encoding': 'gzip' })])
  t.equal(changed.json().calls, 2)
  t.equal(JSON.parse(gunzipSync(zipped.rawPayload).toString()).calls, 2)
  t.not(changed.headers.etag, tag)
  t.equal(reads(), 2)
  pass(5_000)
  t.equal((await get()).headers.etag, changed.headers.etag, 'equal figures are the same document')
  t.equal(reads(), 3)
})

t.test('readers that come together share one compression', async (t) => {
  const { get, reads } = await serve(t)
  const replies = await Promise.all(
    Array.from({ length: 20 }, () => get({ 'accept-encoding': 'br' })),
  )
  t.equal(new Set(replies.map(({ rawPayload }) => rawPayload.toString('base64'))).size, 1)
  t.equal(reads(), 1)
})
