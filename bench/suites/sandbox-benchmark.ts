import { rmSync } from 'node:fs'
import {
  apiKeyHeader,
  createStationHttpClient,
  expectSuccessReply,
  onboardAgents,
  CHAOS_PAID_TOOL_REQUEST_BODY,
  type StationReply,
} from '../../chaos/station-http-client.ts'
import { quantile } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import { createProofDataDirectory, spawnStationProcess } from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import {
  formatMilliseconds,
  createBenchmarkReportRow,
  formatFactor,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Benchmarks the sandbox: the duration of programs, and paid calls beside busy programs. */

const LANGUAGES = ['javascript', 'bash', 'python'] as const
type Language = (typeof LANGUAGES)[number]
const TRIVIAL: Record<Language, string> = {
  javascript: '1+1',
  bash: 'echo $((1+1))',
  python: '1+1',
}
const ENDLESS: Record<Language, string> = {
  javascript: 'while(1){}',
  bash: 'while :; do :; done',
  python: 'while True: pass',
}
/** Expected durations of short programs: a host runs one program at a time. */
const MAX_PROGRAM_MS: Record<Language, number> = { javascript: 30, bash: 50, python: 600 }
const CONNECTIONS = 16
const LOOP_MS = 2_000

type Ask = (body: object) => Promise<StationReply>

/** Runs programs one after the other in each language, then paid calls beside a busy sandbox. */
export async function benchmarkSandbox({
  measureMs,
  warmUpMs,
}: BenchmarkScale): Promise<BenchmarkRow[]> {
  const dataDir = createProofDataDirectory()
  const env = { STARTER_CREDITS_USDC: '100000', PATH: process.env['PATH'] ?? '' }
  const station = await spawnStationProcess({ dataDir, port: await findFreePort(), env })
  const client = createStationHttpClient(station.url, CONNECTIONS + LANGUAGES.length)
  try {
    const [agent] = await onboardAgents(client, 1)
    if (agent === undefined) throw new Error('no agent was made')
    const ask: Ask = (body) => client.send('POST', '/api/refuel', apiKeyHeader(agent), body)
    const rows: BenchmarkRow[] = []
    for (const language of LANGUAGES) rows.push(await languageRow(ask, language, measureMs))
    await paidRate(ask, warmUpMs)
    const alone = await paidRate(ask, measureMs)
    const beside = await whileBusy(ask, () => paidRate(ask, measureMs))
    return [...rows, besideRow(alone, beside)]
  } finally {
    await client.close()
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

const program = (language: Language, code: string) => ({ tool: 'code_sandbox', language, code })

async function languageRow(ask: Ask, language: Language, measureMs: number): Promise<BenchmarkRow> {
  const body = program(language, TRIVIAL[language])
  const first = performance.now()
  const { isolation } = await expectSuccessReply(ask(body))
  const cold = performance.now() - first
  const taken: number[] = []
  const startedAt = performance.now()
  while (performance.now() - startedAt < measureMs) {
    const at = performance.now()
    await expectSuccessReply(ask(body))
    taken.push(performance.now() - at)
  }
  const rate = (taken.length * 1_000) / (performance.now() - startedAt)
  const p50 = quantile(taken, 0.5)
  return createBenchmarkReportRow({
    what: `code_sandbox, a trivial ${language} program, one after the other`,
    measured: `p50 ${formatMilliseconds(p50)}, p99 ${formatMilliseconds(quantile(taken, 0.99))}, ${rate.toFixed(1)}/s; the first ${formatMilliseconds(cold)}`,
    baseline: `isolation ${String(isolation)}`,
    result: formatMilliseconds(p50),
    target: `<= ${MAX_PROGRAM_MS[language]} ms`,
    met: p50 <= MAX_PROGRAM_MS[language],
    n: `${taken.length} programs`,
  })
}

/** Paid calls per second, with one call in flight per connection. */
async function paidRate(ask: Ask, forMs: number): Promise<number> {
  const startedAt = performance.now()
  let answers = 0
  const one = async () => {
    while (performance.now() - startedAt < forMs) {
      await expectSuccessReply(ask(CHAOS_PAID_TOOL_REQUEST_BODY))
      answers += 1
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, one))
  return (answers * 1_000) / (performance.now() - startedAt)
}

/** Runs `work` beside an endless program in each language; an ended program is restarted. */
async function whileBusy<T>(ask: Ask, work: () => Promise<T>): Promise<T> {
  let busy = true
  const loops = LANGUAGES.map(async (language) => {
    while (busy) await ask({ ...program(language, ENDLESS[language]), timeout_ms: LOOP_MS })
  })
  try {
    return await work()
  } finally {
    busy = false
    await Promise.all(loops)
  }
}

const besideRow = (alone: number, beside: number): BenchmarkRow =>
  createBenchmarkReportRow({
    what: 'paid calls a second beside a sandbox that is busy in every language',
    measured: `${Math.round(beside)}/s`,
    baseline: `${Math.round(alone)}/s with an idle one`,
    result: formatFactor(beside / alone),
    target: '>= 0.5x',
    met: beside / alone >= 0.5,
    n: `${CONNECTIONS} connections`,
  })
