import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHash } from 'node:crypto'

/** The website that adversaries make the station call. */

const BIG_BYTES = 300 * 1024
/** Slow enough for a client to disconnect before the response. */
const PRICE_DELAY_MS = 120

interface Teardown {
  teardown(work: () => unknown): unknown
}

/** The website, with the tokens that prove its origin to the station. */
export interface LocalAdversaryWebsite {
  readonly base: string
  readonly port: number
  readonly tokens: Set<string>
}

/** Serves large pages, slow prices, redirects, echoes, and the calls of tools that are sold. */
export async function startLocalAdversaryWebsite(t: Teardown): Promise<LocalAdversaryWebsite> {
  const tokens = new Set<string>()
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://site')
    const sent = String(request.headers['x-token'] ?? '')
    if (url.pathname === '/redirect') {
      const location = `/echo?seen=${encodeURIComponent(sent)}`
      response.writeHead(302, { location }).end()
      return
    }
    if (url.pathname === '/.well-known/gas-station.txt') {
      response.writeHead(200, { 'content-type': 'text/plain' }).end([...tokens].join('\n'))
      return
    }
    const status = url.pathname === '/tool/fails' ? 500 : 200
    response.writeHead(status, { 'content-type': 'application/json', 'x-fixture': '1' })
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
  return { base: `http://127.0.0.1:${port}`, port, tokens }
}

/** Prices in CoinGecko's format. */
const pricesOf = (ids: string): string =>
  JSON.stringify(Object.fromEntries(ids.split(',').map((id) => [id, { usd: 2 }])))

function pageOf(path: string, sent: string): string {
  if (path.startsWith('/big/')) return noise(path)
  return JSON.stringify(path === '/search' ? SEARCH_RESULTS : { path, echo: echoOf(sent) })
}

/** Search results in SearXNG's format. */
const SEARCH_RESULTS = {
  query: '',
  results: [1, 2, 3].map((at) => ({
    title: `finding ${at}`,
    url: `https://found.test/${at}`,
    content: 'What was found.',
    engine: 'test',
  })),
}

/** A secret in every encoding in which a host can echo it. */
function echoOf(sent: string): object {
  const bytes = Buffer.from(sent)
  return {
    plain: sent,
    base64: bytes.toString('base64'),
    hex: bytes.toString('hex'),
    url: encodeURIComponent(sent),
  }
}

/** Incompressible text derived from a path. */
function noise(path: string): string {
  let text = ''
  for (let at = 0; text.length < BIG_BYTES; at += 1)
    text += createHash('sha512').update(`${path} ${at}`).digest('base64')
  return JSON.stringify({ text })
}
