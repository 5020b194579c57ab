import { gzipSync } from 'node:zlib'
import type { FixtureServer, TeardownScope, UpstreamFault } from './fixture-server.ts'
import { sendJsonFixture, startFixtureServer, UPSTREAM_FAULTS } from './fixture-server.ts'

/**
 * A website for data_retrieval: `/json`, `/text`, `/csv`, `/latin1`, `/gzip`, `/404`, `/echo` (its
 * request headers), `/to?<url>` (a redirect), `/loop`, and one path per fault.
 */
export function startTestDataRetrievalWebsite(t: TeardownScope): Promise<FixtureServer> {
  return startFixtureServer(t, (request, response) => {
    const [path = '', query = ''] = (request.url ?? '').split(/\?(.*)/s)
    const name = path.slice(1)
    if (name in UPSTREAM_FAULTS) return UPSTREAM_FAULTS[name as UpstreamFault](request, response)
    if (path === '/json') return sendJsonFixture(response, { answer: 42 })
    if (path === '/echo') return sendJsonFixture(response, request.headers)
    if (path === '/404') return sendJsonFixture(response, { error: 'no such page' }, 404)
    if (path === '/to') return void response.writeHead(302, { location: query }).end()
    if (path === '/loop') return void response.writeHead(302, { location: '/loop' }).end()
    const [type, body] = pages[path] ?? ['text/plain', 'hello']
    const coding = ['/gzip', '/zstd'].includes(path) ? { 'content-encoding': path.slice(1) } : {}
    response.writeHead(200, { 'content-type': type, ...coding }).end(body)
  })
}

const pages: Record<string, [string, string | Buffer]> = {
  '/csv': ['text/csv', 'name,note\r\nada,"says ""hi"", twice"\r\nbob,"two\nlines"\r\n'],
  '/latin1': ['text/plain; charset=iso-8859-1', Buffer.from([0x63, 0x61, 0x66, 0xe9])],
  '/gzip': ['application/json', gzipSync('{"packed":true}')],
  '/broken': ['application/json', '{"answer":'],
  '/deep': ['application/json', '['.repeat(50_000) + ']'.repeat(50_000)],
}
