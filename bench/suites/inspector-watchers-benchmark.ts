import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import {
  createStationHttpClient,
  CHAOS_PAID_TOOL_REQUEST_BODY,
} from '../../chaos/station-http-client.ts'
import { median } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import {
  connectToEmbeddedStationDatabase,
  createProofDataDirectory,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import { runLoadGenerator, spawnBenchmarkChildProgram } from '../benchmark-child-processes.ts'
import type { HttpLoadResult } from '../http-load-generator.ts'
import type { InspectorWatchersBenchmarkReport } from '../inspector-watchers-child-process.ts'
import { seedAgents, seedApiKeys } from '../seed-agents.ts'
import {
  createBenchmarkReportRow,
  formatMilliseconds,
  formatWithThousandsSeparators,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Benchmarks paid calls while people watch the inspector, one of whom never reads. */

const CALLS_PER_SECOND = 300
const AGENTS = 100
const CONNECTIONS = 64
/** Those who try; a node serves 20. Null is nobody at all, without the one that never reads. */
const VARIANTS = [null, 10, 200] as const
/** How much slower the slowest hundredth may be: less than the runs differ among each other. */
const MAX_ADDED_MS = 5

interface WatchedRun {
  readonly load: HttpLoadResult
  readonly watchers: InspectorWatchersBenchmarkReport | null
}

/** The same calls at a fixed rate in alternating runs: unwatched, with ten watchers, and with 200 that try. */
export async function benchmarkInspectorWatchers(
  env: Readonly<Record<string, string>>,
  { rounds, warmUpMs, measureMs }: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const [dataDir, port] = [createProofDataDirectory(), await findFreePort()]
  const token = randomBytes(24).toString('base64url')
  const watched = { ...env, INSPECTOR: 'on', OPERATOR_TOKEN: token }
  const nodeArgs = ['--max-semi-space-size=64']
  const station = await spawnStationProcess({ dataDir, port, env: watched, nodeArgs })
  const sql = connectToEmbeddedStationDatabase(dataDir)
  const client = createStationHttpClient(station.url, 1)
  try {
    const keys = await seedApiKeys(dataDir, sql, await seedAgents(client, sql, AGENTS))
    const call = async (): Promise<HttpLoadResult> => {
      const plan = {
        port,
        path: '/api/refuel',
        body: CHAOS_PAID_TOOL_REQUEST_BODY,
        keys,
        rate: CALLS_PER_SECOND,
      }
      const load = await runLoadGenerator({
        ...plan,
        connections: CONNECTIONS,
        warmUpMs,
        measureMs,
      })
      if (load.failed > 0) throw new Error(`${load.failed} of ${load.answers} requests failed`)
      return load
    }
    const run = async (watchers: number | null): Promise<WatchedRun> => {
      if (watchers === null) return { load: await call(), watchers: null }
      const args = [String(port), token, String(watchers)]
      const program = spawnBenchmarkChildProgram('inspector-watchers-child-process.ts', args)
      await program.ask()
      const load = await call()
      const report = program.ask()
      await program.stop()
      return { load, watchers: JSON.parse(await report) as InspectorWatchersBenchmarkReport }
    }
    const runs = VARIANTS.map(() => [] as WatchedRun[])
    // The order turns round, so that no variant always runs first.
    for (let round = 0; round < rounds; round += 1)
      for (let turn = 0; turn < VARIANTS.length; turn += 1) {
        const at = (round + turn) % VARIANTS.length
        runs[at]?.push(await run(VARIANTS[at] ?? null))
      }
    const [alone = [], ...others] = runs
    return others.map((beside) => toRow(alone, beside, rounds))
  } finally {
    await client.close()
    await sql.end({ timeout: 1 })
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

function toRow(
  alone: readonly WatchedRun[],
  beside: readonly WatchedRun[],
  rounds: number,
): BenchmarkRow {
  const last = beside.at(-1)?.watchers ?? { admitted: 0, refused: 0, frames: 0, bytes: 0 }
  const added = quantileOf(beside, 'p99') - quantileOf(alone, 'p99')
  const told = `${formatWithThousandsSeparators(last.frames)} frames, ${formatWithThousandsSeparators(last.bytes / 1024)} KiB in the last round`
  return createBenchmarkReportRow({
    what: `${CALLS_PER_SECOND} paid calls/s while ${last.admitted} watch the inspector and one never reads`,
    measured: `${latencyOf(beside)}; ${told}; ${last.refused} more watchers refused`,
    baseline: `nobody watches: ${latencyOf(alone)}`,
    result: `p99 ${added < 0 ? '-' : '+'}${formatMilliseconds(Math.abs(added))}`,
    target: `p99 at most ${MAX_ADDED_MS} ms more`,
    met: added <= MAX_ADDED_MS,
    n: `${rounds} alternating rounds`,
  })
}

const quantileOf = (runs: readonly WatchedRun[], name: 'p50' | 'p99'): number =>
  median(runs.map(({ load }) => load[name]))
const latencyOf = (runs: readonly WatchedRun[]): string =>
  `p50 ${formatMilliseconds(quantileOf(runs, 'p50'))}, p99 ${formatMilliseconds(quantileOf(runs, 'p99'))}`
