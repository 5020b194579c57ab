import { rmSync } from 'node:fs'
import {
  apiKeyHeader,
  createStationHttpClient,
  expectSuccessReply,
  onboardAgents,
  CHAOS_PAID_TOOL_REQUEST_BODY,
} from '../../chaos/station-http-client.ts'
import { median } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import { createProofDataDirectory, spawnStationProcess } from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import { createBenchmarkReportRow, type BenchmarkRow } from '../benchmark-result-row.ts'
import { readCpuMicroseconds, readResidentMegabytes } from '../probes/process-usage.ts'

/** Benchmarks a start: the time to ready and to the first paid call, and what it took. */

/** As `npm start` and the image run it. */
const NODE_ARGS = ['--max-semi-space-size=16']

interface MeasuredStart {
  /** From the start of the process to its ready line. */
  readonly readyMs: number
  readonly readyMegabytes: number
  readonly readyCpuMs: number
  /** From the start of the process to the answer of the first paid call. */
  readonly callMs: number
}

async function measureStart(dataDir: string): Promise<MeasuredStart> {
  const port = await findFreePort()
  const startedAt = performance.now()
  const station = await spawnStationProcess({ dataDir, port, nodeArgs: NODE_ARGS })
  const readyMs = performance.now() - startedAt
  const readyMegabytes = readResidentMegabytes(station.pid)
  const readyCpuMs = readCpuMicroseconds(station.pid) / 1_000
  const client = createStationHttpClient(station.url, 1)
  try {
    const [agent] = await onboardAgents(client, 1)
    if (agent === undefined) throw new Error('no agent was made')
    await expectSuccessReply(
      client.send('POST', '/api/refuel', apiKeyHeader(agent), CHAOS_PAID_TOOL_REQUEST_BODY),
    )
    return { readyMs, readyMegabytes, readyCpuMs, callMs: performance.now() - startedAt }
  } finally {
    await client.close()
    await station.stop()
  }
}

/** Cold starts with an empty data directory and create the database; warm starts reuse it. */
export async function benchmarkStartup(rounds: number): Promise<BenchmarkRow[]> {
  const [cold, warm] = [[] as MeasuredStart[], [] as MeasuredStart[]]
  for (let at = 0; at < rounds; at++) {
    const dataDir = createProofDataDirectory()
    try {
      cold.push(await measureStart(dataDir))
      warm.push(await measureStart(dataDir))
    } finally {
      rmSync(dataDir, { recursive: true, force: true })
    }
  }
  return [createFirstCallRow(cold, warm, rounds), createReadyRow(cold, warm, rounds)]
}

type Starts = readonly MeasuredStart[]

const middle = (starts: Starts, name: keyof MeasuredStart): number =>
  median(starts.map((start) => start[name]))
const seconds = (starts: Starts, name: 'readyMs' | 'callMs'): string =>
  (middle(starts, name) / 1_000).toFixed(2)

function createFirstCallRow(cold: Starts, warm: Starts, rounds: number): BenchmarkRow {
  const text = `cold ${seconds(cold, 'callMs')} s, warm ${seconds(warm, 'callMs')} s`
  return createBenchmarkReportRow({
    what: 'start of the built service to the answer of the first paid call, onboarding included',
    measured: text,
    baseline: '',
    result: text,
    target: 'cold <= 5 s, warm <= 1.5 s',
    met: middle(cold, 'callMs') <= 5_000 && middle(warm, 'callMs') <= 1_500,
    n: `${rounds} rounds`,
  })
}

function createReadyRow(cold: Starts, warm: Starts, rounds: number): BenchmarkRow {
  const text = `cold ${seconds(cold, 'readyMs')} s, warm ${seconds(warm, 'readyMs')} s`
  const memory = middle(warm, 'readyMegabytes')
  return createBenchmarkReportRow({
    what: 'start of the built service to its ready line, and its memory at that moment',
    measured: `${text}; warm: RSS ${memory} MB, ${middle(warm, 'readyCpuMs').toFixed(0)} ms of CPU`,
    baseline: '',
    result: `${text}, RSS ${memory} MB`,
    target: 'printed',
    met: true,
    n: `${rounds} rounds`,
  })
}
