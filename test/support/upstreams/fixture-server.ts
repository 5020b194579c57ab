import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'

/** Local HTTP servers for upstream fixtures and faults. */

export interface TeardownScope {
  teardown(work: () => unknown): unknown
}

export interface FixtureServer {
  /** `http://127.0.0.1:<port>`. */
  readonly base: string
  readonly port: number
  /** Every request so far, as `GET /path`. */
  readonly requests: string[]
}

/**
 * Starts an HTTP server on a free loopback port; it closes with the test. With the host `0.0.0.0` every
 * address of 127.0.0.0/8 reaches it.
 */
export async function startFixtureServer(
  t: TeardownScope,
  answer: RequestListener,
  host = '127.0.0.1',
): Promise<FixtureServer> {
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    answer(request, response)
  })
  await new Promise<void>((ready) => server.listen(0, host, ready))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise((done) => server.close(done))
  })
  const { port } = server.address() as AddressInfo
  return { base: `http://127.0.0.1:${port}`, port, requests }
}

/** Sends JSON with the marker of fixtures. */
export function sendJsonFixture(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json', 'x-fixture': '1' })
  response.end(JSON.stringify(body))
}

/** Upstream faults that every provider can show. */
export type UpstreamFault = '429' | '500' | 'hang' | 'drip' | 'malformed' | 'bomb' | 'redirect'

export const UPSTREAM_FAULTS: Record<
  UpstreamFault,
  (request: IncomingMessage, response: ServerResponse) => void
> = {
  '429': (_, response) => response.writeHead(429, { 'retry-after': '7' }).end(),
  '500': (_, response) => response.writeHead(500).end('{"error":"oops"}'),
  hang: () => {},
  drip: (_, response) => sendSlowly(response),
  malformed: (_, response) => response.writeHead(200).end('{"bitcoin":{"usd":'),
  bomb: (_, response) => sendZipBomb(response),
  redirect: (_, response) =>
    response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data/' }).end(),
}

/** Sends a byte now and then: no pause is long, but the response never ends. */
function sendSlowly(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  const timer = setInterval(() => response.write(' '), 20)
  response.on('close', () => clearInterval(timer))
}

/** 64 MiB of zeros in about 64 KiB of gzip; built before any test starts its timer. */
const ZIP_BOMB = gzipSync(Buffer.alloc(64 * 1024 * 1024), { level: 9 })

function sendZipBomb(response: ServerResponse): void {
  response.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'text/plain' })
  response.end(ZIP_BOMB)
}
