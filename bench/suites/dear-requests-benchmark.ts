import { rmSync } from 'node:fs'
import { Agent, request } from 'undici'
import {
  CHAOS_PAID_TOOL_REQUEST_BODY,
  createStationHttpClient,
  onboardAgents,
} from '../../chaos/station-http-client.ts'
import { createProofDataDirectory, spawnStationProcess } from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import {
  dearestRequests,
  type DearRequest,
  type OperationDocument,
} from '../../test/support/http/dearest-requests.ts'
import {
  createBenchmarkReportRow,
  formatMilliseconds,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Benchmarks everybody else while forty connections send the dearest requests, with rate limits. */

const CONNECTIONS = 40
const TARGET_MS = 250
/** The flood has an address of its own: what it uses up is its own. */
const FLOOD = new Agent({ connections: CONNECTIONS, localAddress: '127.0.0.2' })
/** Beyond this many refusals in a row a sender waits, as long as any HTTP client takes to notice. */
const PAUSE_AFTER_REFUSAL_MS = 5
/** The dearest of the cost table, by their operations. */
const OPERATIONS: readonly [path: string, hasKey: boolean][] = [
  ['/api/refuel', false],
  ['/api/quote', false],
  ['/api/refuel', true],
  ['/api/vault/write', true],
  ['/api/vault/share', true],
  ['/api/hive/write', true],
  ['/api/tools/register', true],
  ['/api/tools/import', true],
]

interface Others {
  readonly p50: number
  readonly p99: number
  readonly calls: number
}

/** Starts a station of its own, with rate limits. */
export async function benchmarkDearRequests({
  measureMs,
}: BenchmarkScale): Promise<BenchmarkRow[]> {
  const [dataDir, port] = [createProofDataDirectory(), await findFreePort()]
  const env = { RATE_LIMITS: 'on', STARTER_CREDITS_USDC: '1000' }
  const station = await spawnStationProcess({ dataDir, port, env })
  try {
    const opened = await request(`${station.url}/api/openapi.json`)
    const document = (await opened.body.json()) as OperationDocument
    const client = createStationHttpClient(station.url, 1)
    const [first, ...agents] = await onboardAgents(client, OPERATIONS.length + 1)
    await client.close()
    const other = { url: station.url, key: first?.key ?? '' }
    const alone = await measureOthers(other, measureMs, async () => undefined)
    const rows: BenchmarkRow[] = []
    for (const [at, [path, hasKey]] of OPERATIONS.entries()) {
      const key = hasKey ? (agents[at]?.key ?? '') : null
      const operation = document.paths[path]?.['post']
      if (operation === undefined) throw new Error(`no operation POST ${path}`)
      const requests = dearestRequests(document, path, operation, hasKey)
      const beside = await measureOthers(other, measureMs, (signal) =>
        flood(station.url, requests, key, signal),
      )
      rows.push(toRow(`POST ${path} ${hasKey ? 'with' : 'without'} a key`, alone, beside))
    }
    return rows
  } finally {
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** Sends the requests over all connections until the signal, each as soon as the one before is answered. */
async function flood(
  url: string,
  requests: readonly DearRequest[],
  key: string | null,
  signal: AbortSignal,
): Promise<void> {
  const send = async (at: number) => {
    for (let n = at; !signal.aborted; n += 1) {
      const { path, raw = '{}' } = requests[n % requests.length] as DearRequest
      const headers = { 'content-type': 'application/json', ...(key && { 'x-api-key': key }) }
      // A body that is refused before it is read closes its connection.
      const reply = await request(url + path, {
        method: 'POST',
        headers,
        body: raw,
        dispatcher: FLOOD,
      }).catch(() => null)
      await reply?.body.dump().catch(() => undefined)
      if (reply?.statusCode !== 200) await pause(PAUSE_AFTER_REFUSAL_MS)
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, at) => send(at)))
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Paid calls of another agent, one after the other, while `disturb` runs. */
async function measureOthers(
  { url, key }: { readonly url: string; readonly key: string },
  measureMs: number,
  disturb: (signal: AbortSignal) => Promise<void>,
): Promise<Others> {
  const ended = new AbortController()
  const disturbing = disturb(ended.signal)
  const times: number[] = []
  const since = performance.now()
  while (performance.now() - since < measureMs) {
    const start = performance.now()
    const { statusCode, body } = await request(`${url}/api/refuel`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': key },
      body: JSON.stringify(CHAOS_PAID_TOOL_REQUEST_BODY),
    })
    const text = await body.text()
    if (statusCode !== 200) throw new Error(`another agent's call is answered ${text}`)
    times.push(performance.now() - start)
    await pause(25)
  }
  ended.abort()
  await disturbing
  times.sort((one, other) => one - other)
  const at = (share: number) => times[Math.floor(share * (times.length - 1))] ?? 0
  return { p50: at(0.5), p99: at(0.99), calls: times.length }
}

const toRow = (what: string, alone: Others, beside: Others): BenchmarkRow =>
  createBenchmarkReportRow({
    what: `Calls of another agent while ${CONNECTIONS} connections send the dearest bodies of ${what}, rate limits on`,
    measured: `p50 ${formatMilliseconds(beside.p50)}, p99 ${formatMilliseconds(beside.p99)}`,
    baseline: `alone: p50 ${formatMilliseconds(alone.p50)}, p99 ${formatMilliseconds(alone.p99)}`,
    result: `p99 ${formatMilliseconds(beside.p99)}`,
    target: `p99 <= ${TARGET_MS} ms`,
    met: beside.p99 <= TARGET_MS,
    n: `${beside.calls} calls`,
  })
