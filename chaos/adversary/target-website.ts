import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHash } from 'node:crypto'

const BIG_BYTES = 300 * 1024
/** A source of prices is slow enough for whoever leaves before its answer. */
const PRICE_DELAY_MS = 120

interface Teardown {
  teardown(work: () => unknown): unknown
}

/** A website with what adversaries need: large pages, slow prices, redirects and echoes. */
export async function startTargetWebsite(t: Teardown): Promise<{ base: string; port: number }> {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://site')
    const sent = String(request.headers['x-token'] ?? '')
    if (url.pathname === '/redirect') {
      const location = `/echo?seen=${encodeURIComponent(sent)}`
      response.writeHead(302, { location }).end()
      return
    }
    response.writeHead(200, { 'content-type': 'application/json', 'x-fixture': '1' })
    const asked = url.searchParams.get('ids')
    if (asked === null) response.end(pageOf(url.pathname, sent))
    else setTimeout(() => response.end(pricesOf(asked)), PRICE_DELAY_MS)
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise((done) => server.close(done))
  })
  const { port } = server.address() as AddressInfo
  return { base: `http://127.0.0.1:${port}`, port }
}

/** Prices in the form of CoinGecko. */
const pricesOf = (ids: string): string =>
  JSON.stringify(Object.fromEntries(ids.split(',').map((id) => [id, { usd: 2 }])))

function pageOf(path: string, sent: string): string {
  if (path.startsWith('/big/')) return noise(path)
  return JSON.stringify(path === '/search' ? SEARCH_RESULTS : { path, echo: echoOf(sent) })
}

/** What a search finds, in the form of SearXNG. */
const SEARCH_RESULTS = {
  query: '',
  results: [1, 2, 3].map((at) => ({
    title: `finding ${at}`,
    url: `https://found.test/${at}`,
    content: 'What was found.',
    engine: 'test',
  })),
}

/** A secret in the forms that a host can send it back in. */
function echoOf(sent: string): object {
  const bytes = Buffer.from(sent)
  return {
    plain: sent,
    base64: bytes.toString('base64'),
    hex: bytes.toString('hex'),
    url: encodeURIComponent(sent),
  }
}

/** Text of a path that no compression makes small. */
function noise(path: string): string {
  let text = ''
  for (let at = 0; text.length < BIG_BYTES; at += 1)
    text += createHash('sha512').update(`${path} ${at}`).digest('base64')
  return JSON.stringify({ text })
}
