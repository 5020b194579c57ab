import { rmSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { Agent as Connections, request } from 'undici'
import {
  apiKeyHeader,
  createStationHttpClient,
  usdcToMicros,
  expectSuccessReply,
  onboardAgents,
  type AgentIdAndApiKey,
} from '../../chaos/station-http-client.ts'
import { createProofDataDirectory, spawnStationProcess } from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import {
  formatMilliseconds,
  createBenchmarkReportRow,
  type BenchmarkRow,
} from '../benchmark-result-row.ts'

/** Benchmarks the wait of one agent while another one occupies all sandbox slots it may hold. */

const STREAMS = 4
const CALLS = 8
const PRICE = 0.05
/** The longest program run, plus host start and charge. */
const MAX_WAIT_MS = 10_000 + 2_000
const SECONDS = 7

/** Both print, run long and exit; the Python program leaves an invalid result. */
const LONG = {
  python: [
    'import os, time',
    'print("worth it")',
    `time.sleep(${SECONDS})`,
    'open("/tmp/result.json", "w").write("x")',
    'os._exit(0)',
  ].join('\n'),
  bash: `echo worth it; sleep ${SECONDS}; exit 3`,
}
type Language = keyof typeof LONG
const SHORT: Record<Language, string> = { python: '1+1', bash: 'echo $((1+1))' }

interface FairnessAnswer {
  readonly status: number
  readonly ms: number
  readonly said: string
}

/** Measures short programs of one agent beside long programs of another. */
export async function benchmarkSandboxFairness(): Promise<BenchmarkRow[]> {
  const dataDir = createProofDataDirectory()
  const env = { STARTER_CREDITS_USDC: '100', PATH: process.env['PATH'] ?? '' }
  const station = await spawnStationProcess({ dataDir, port: await findFreePort(), env })
  const client = createStationHttpClient(station.url, 4)
  const connections = new Connections({ headersTimeout: 0, bodyTimeout: 0 })
  try {
    const [greedy, victim] = await onboardAgents(client, 2)
    if (greedy === undefined || victim === undefined) throw new Error('no agents were made')
    const ask = async (by: AgentIdAndApiKey, path: string, language: Language, code: string) => {
      const started = performance.now()
      const reply = await request(`${station.url}${path}`, {
        method: 'POST',
        dispatcher: connections,
        headers: { ...apiKeyHeader(by), 'content-type': 'application/json' },
        body: JSON.stringify({ tool: 'code_sandbox', language, code, timeout_ms: 10_000 }),
      })
      const said = await text(reply.body)
      return { status: reply.statusCode, ms: performance.now() - started, said }
    }
    const balance = async () =>
      usdcToMicros(
        (
          await expectSuccessReply(client.send('GET', '/api/credits/balance', apiKeyHeader(greedy)))
        )['balance_usdc'],
      )
    const rows: BenchmarkRow[] = []
    for (const language of ['python', 'bash'] as const) {
      const short = () => ask(victim, '/api/refuel', language, SHORT[language])
      // Starts a host before the measurement.
      await short()
      const before = await balance()
      const streams = Array.from({ length: STREAMS }, () =>
        ask(greedy, '/api/refuel/stream', language, LONG[language]),
      )
      await new Promise((done) => setTimeout(done, 500))
      const calls =
        language === 'python' ? await askSequentially(short) : await askConcurrently(short)
      const held = await Promise.all(streams)
      const paid = Math.round((before - (await balance())) / usdcToMicros(PRICE))
      rows.push(fairnessRow(language, calls, held, paid))
    }
    return rows
  } finally {
    await connections.destroy()
    await client.close()
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function askSequentially(ask: () => Promise<FairnessAnswer>): Promise<FairnessAnswer[]> {
  const calls: FairnessAnswer[] = []
  for (let n = 0; n < CALLS; n += 1) calls.push(await ask())
  return calls
}

const askConcurrently = (ask: () => Promise<FairnessAnswer>): Promise<FairnessAnswer[]> =>
  Promise.all(Array.from({ length: CALLS }, ask))

function fairnessRow(
  language: Language,
  calls: readonly FairnessAnswer[],
  held: readonly FairnessAnswer[],
  paid: number,
): BenchmarkRow {
  const refused = calls.filter(({ status }) => status !== 200).length
  const longest = Math.max(...calls.map((call) => call.ms))
  const ran = held.filter(({ said }) => said.includes('worth it')).length
  const how = language === 'python' ? 'one after the other' : 'at once'
  return createBenchmarkReportRow({
    what: `${CALLS} calls of code_sandbox (${language}), ${how}, while another agent holds ${STREAMS} streams of ${SECONDS} s`,
    measured: `${refused} refused, the longest ${formatMilliseconds(longest)}; all: ${calls.map((call) => formatMilliseconds(call.ms)).join(', ')}`,
    baseline: `of the other agent's ${STREAMS} programs ${ran} ran, ${paid} were paid`,
    result: `${refused} refused, ${formatMilliseconds(longest)}, ${paid} of ${ran} paid`,
    target: `0 refused, <= ${formatMilliseconds(MAX_WAIT_MS)}, ${STREAMS} of ${STREAMS} paid`,
    met: refused === 0 && longest <= MAX_WAIT_MS && paid === STREAMS && ran === STREAMS,
    n: `${CALLS} calls`,
  })
}
