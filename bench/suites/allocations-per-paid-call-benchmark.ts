import { rmSync } from 'node:fs'
import {
  createStationHttpClient,
  CHAOS_PAID_TOOL_REQUEST_BODY,
} from '../../chaos/station-http-client.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import {
  connectToEmbeddedStationDatabase,
  createProofDataDirectory,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { runLoadGenerator, spawnBenchmarkChildProgram } from '../benchmark-child-processes.ts'
import {
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  type BenchmarkRow,
} from '../benchmark-result-row.ts'
import { connectHeapProfiler } from '../probes/station-heap-profiler.ts'
import { seedAgents, seedApiKeys } from '../seed-agents.ts'

/** Benchmarks what the station and the baselines allocate for a paid call, at a fixed rate. */

const CALLS_PER_SECOND = 300
const AGENTS = 100
const CONNECTIONS = 64
const WARM_UP_MS = 8_000
const MEASURE_MS = 20_000
const TARGET_KB = 40
const SHOWN_SITES = 8

/** A running service, and the inspector port of its process. */
interface ProfiledService {
  readonly port: number
  readonly inspectPort: number
  readonly path: string
  readonly keys: readonly string[]
}

interface CallAllocations {
  readonly kilobytes: number
  readonly calls: number
  /** The functions that allocate most, with kB a call. */
  readonly largest: string
}

/** Starts services of its own: the profiler slows them down. */
export async function benchmarkGarbage(
  env: Readonly<Record<string, string>>,
): Promise<BenchmarkRow> {
  const [dataDir, port, inspectPort] = [
    createProofDataDirectory(),
    await findFreePort(),
    await findFreePort(),
  ]
  const nodeArgs = ['--max-semi-space-size=16', `--inspect=127.0.0.1:${inspectPort}`]
  const station = await spawnStationProcess({ dataDir, port, env, nodeArgs })
  const sql = connectToEmbeddedStationDatabase(dataDir)
  const client = createStationHttpClient(station.url, 1)
  try {
    const keys = await seedApiKeys(dataDir, sql, await seedAgents(client, sql, AGENTS))
    const path = '/api/refuel'
    const ours = await measureAllocations({ port, inspectPort, path, keys })
    const accounts = keys.map((_, at) => String(at))
    const programs = [
      ['floor', 'minimal-paid-call-benchmark-server.ts', path],
      ['naive transaction', 'baseline-server.ts', path],
      ['bare route', 'baseline-server.ts', '/echo'],
    ] as const
    const baselines: string[] = []
    for (const [name, program, route] of programs) {
      const { kilobytes } = await measureBaseline(dataDir, program, route, accounts)
      baselines.push(`${name} ${kilobytes.toFixed(0)} kB`)
    }
    return createBenchmarkReportRow({
      what: `allocations of a paid call at ${CALLS_PER_SECOND}/s over ${AGENTS} agents, by a sampling heap profile with collected objects`,
      measured: `${ours.kilobytes.toFixed(0)} kB; the largest in kB: ${ours.largest}`,
      baseline: baselines.join(', '),
      result: `${ours.kilobytes.toFixed(0)} kB`,
      target: `<= ${TARGET_KB} kB`,
      met: ours.kilobytes <= TARGET_KB,
      n: `${formatWithThousandsSeparators(ours.calls)} calls`,
    })
  } finally {
    await client.close()
    await sql.end({ timeout: 1 })
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** Runs a baseline with an inspector beside the station, which is idle meanwhile. */
async function measureBaseline(
  dataDir: string,
  program: string,
  path: string,
  keys: readonly string[],
): Promise<CallAllocations> {
  const inspectPort = await findFreePort()
  const service = spawnBenchmarkChildProgram(
    program,
    [dataDir, String(keys.length)],
    ['--max-semi-space-size=16', `--inspect=127.0.0.1:${inspectPort}`],
  )
  try {
    const port = Number(await service.ask())
    return await measureAllocations({ port, inspectPort, path, keys })
  } finally {
    await service.stop()
  }
}

async function measureAllocations(service: ProfiledService): Promise<CallAllocations> {
  const { port, inspectPort, path, keys } = service
  const call = (measureMs: number) =>
    runLoadGenerator({
      ...{ port, path, keys, body: CHAOS_PAID_TOOL_REQUEST_BODY, connections: CONNECTIONS },
      ...{ rate: CALLS_PER_SECOND, warmUpMs: 0, measureMs },
    })
  const profiler = await connectHeapProfiler(inspectPort)
  try {
    await call(WARM_UP_MS)
    await profiler.start()
    const load = await call(MEASURE_MS)
    const { bytes, sites } = await profiler.stop()
    if (load.failed > 0) throw new Error(`${load.failed} of ${load.answers} requests failed`)
    const kilobytes = (size: number) => size / load.all.good / 1_000
    const largest = sites
      .slice(0, SHOWN_SITES)
      .map(({ place, bytes: size }) => `${place} ${kilobytes(size).toFixed(1)}`)
      .join(', ')
    return { kilobytes: kilobytes(bytes), calls: load.all.good, largest }
  } finally {
    profiler.close()
  }
}
