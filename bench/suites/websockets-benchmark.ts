import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createStationHttpClient, type StationHttpClient } from '../../chaos/station-http-client.ts'
import { quantile } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import {
  createProofDataDirectory,
  connectToEmbeddedStationDatabase,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import { measureFsyncDuring, type FsyncLatencies } from '../fsync-probe.ts'
import { readCpuMicroseconds } from '../probes/process-usage.ts'
import type { WebSocketListenerBenchmarkReport } from '../benchmark-websocket-listeners.ts'
import { seedApiKeys, seedAgents } from '../seed-agents.ts'
import {
  spawnBenchmarkChildProgram,
  type BenchmarkChildProgram,
} from '../benchmark-child-processes.ts'
import {
  formatMilliseconds,
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Benchmarks signal delivery to many WebSockets. */

const SOCKETS = 1_000
const RATE = 50
const CHANNEL = 'bench:signals'
const PUBLISHERS = 8
/** Signals excluded from the measurement. */
const WARM_UP = 100

type Env = Readonly<Record<string, string>>
const MEMORY = '/dev/shm'

/**
 * Measures on the disk of this machine beside its fsync latency, with the database in memory, and
 * against the baseline that loops over the sockets. The difference is the cost of the service.
 */
export async function benchmarkWebSockets(
  env: Env,
  scale: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const naive = await measureBaseline(scale)
  const [onDisk, disk] = await measureFsyncDuring(tmpdir(), () =>
    measureStation(env, scale, tmpdir()),
  )
  const rows = [resultOf(onDisk, naive, disk)]
  if (existsSync(MEMORY)) rows.push(resultOf(await measureStation(env, scale, MEMORY), naive, null))
  return rows
}

interface SocketMeasurement {
  readonly heard: WebSocketListenerBenchmarkReport
  readonly total: number
  readonly serverCpu: number
  readonly answered: readonly number[]
}

/** A server under measurement, with its publisher and listeners. */
interface Server {
  readonly url: string
  readonly pid: number
  readonly client: StationHttpClient
  readonly keys: readonly string[]
  /** Whether one listener disconnects and catches up during the run. */
  readonly catchesUp: boolean
}

async function measureStation(
  env: Env,
  scale: BenchmarkScale,
  where: string,
): Promise<SocketMeasurement> {
  const dataDir = createProofDataDirectory(where)
  const station = await spawnStationProcess({ dataDir, port: await findFreePort(), env })
  const sql = connectToEmbeddedStationDatabase(dataDir)
  const client = createStationHttpClient(station.url, PUBLISHERS)
  try {
    const keys = await seedApiKeys(dataDir, sql, await seedAgents(client, sql, SOCKETS + 1))
    const { url, pid } = station
    return await measured({ url, pid, client, keys, catchesUp: true }, scale)
  } finally {
    await client.close()
    await sql.end({ timeout: 1 })
    await station.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function measureBaseline(scale: BenchmarkScale): Promise<SocketMeasurement> {
  const server = spawnBenchmarkChildProgram('baseline-websocket-server.ts', [])
  const { url, pid } = JSON.parse(await server.ask()) as Pick<Server, 'url' | 'pid'>
  const client = createStationHttpClient(url, PUBLISHERS)
  try {
    const keys = Array<string>(SOCKETS + 1).fill('none')
    return await measured({ url, pid, client, keys, catchesUp: false }, scale)
  } finally {
    await client.close()
    await server.stop()
  }
}

/** Runs many sockets that listen to one publisher. */
async function measured(server: Server, scale: BenchmarkScale): Promise<SocketMeasurement> {
  const { url, pid, client, keys, catchesUp } = server
  const plans = mkdtempSync(join(tmpdir(), 'gas-station-listeners-'))
  const plan = join(plans, 'plan.json')
  writeFileSync(plan, JSON.stringify({ url, channel: CHANNEL, keys: keys.slice(1) }))
  const listeners = spawnBenchmarkChildProgram('benchmark-websocket-listeners.ts', [plan])
  try {
    await listeners.ask()
    const total = Math.round((scale.measureMs / 1_000) * scale.rounds * RATE)
    await publish(client, keys[0] ?? '', { from: 0, to: WARM_UP })
    await listeners.ask(`begin ${WARM_UP}`)
    const before = readCpuMicroseconds(pid)
    const span = { from: WARM_UP, to: WARM_UP + total }
    const answered = await publish(client, keys[0] ?? '', span, catchesUp ? listeners : undefined)
    const heard = JSON.parse(
      await listeners.ask(`end ${span.to}`),
    ) as WebSocketListenerBenchmarkReport
    return { heard, total, serverCpu: readCpuMicroseconds(pid) - before, answered }
  } finally {
    await listeners.stop()
    rmSync(plans, { recursive: true, force: true })
  }
}

/**
 * Publishes at a fixed rate; resolves to the response times in milliseconds. One listener is
 * disconnected for the second third.
 */
async function publish(
  client: StationHttpClient,
  key: string,
  { from, to }: { from: number; to: number },
  listeners?: BenchmarkChildProgram,
): Promise<number[]> {
  const took: number[] = []
  const begun = performance.now()
  const answers: Promise<{ status: number }>[] = []
  const third = Math.floor((to - from) / 3)
  for (let n = from; n < to; n++) {
    await pause(Math.max(0, begun + ((n - from) * 1_000) / RATE - performance.now()))
    if (n === from + third) await listeners?.ask('leave')
    if (n === from + 2 * third) await listeners?.ask('comeBack')
    const payload = { n, sent: Date.now() }
    const body = { channel: CHANNEL, type: 'price_alert', payload }
    const asked = client.send('POST', '/api/signal/publish', { 'x-api-key': key }, body)
    answers.push(asked.finally(() => took.push(Date.now() - payload.sent)))
  }
  const refused = (await Promise.all(answers)).filter(({ status }) => status !== 200)
  if (refused.length > 0) throw new Error(`${refused.length} signals were refused`)
  return took
}

function resultOf(
  measured: SocketMeasurement,
  naive: SocketMeasurement,
  disk: FsyncLatencies | null,
): BenchmarkRow {
  const { heard, total, answered } = measured
  const each = perFrame(measured)
  const lost = SOCKETS * total - heard.frames
  const [q50, q99] = [quantile(answered, 0.5), quantile(answered, 0.99)]
  const where =
    disk === null
      ? 'the database in memory'
      : `the disk alone p50 ${formatMilliseconds(disk.p50)}, p99 ${formatMilliseconds(disk.p99)}, at most ${formatMilliseconds(disk.max)}`
  return createBenchmarkReportRow({
    what: `${formatWithThousandsSeparators(SOCKETS)} sockets, one publisher at ${RATE} signals/s, request to frame; ${where}`,
    measured: `${told(measured)}; the publisher's own answers p50 ${formatMilliseconds(q50)}, p99 ${formatMilliseconds(q99)}; ${formatWithThousandsSeparators(heard.frames)} frames, ${heard.wrong} sockets with one missing, double or out of order; a client away for a third of them was given ${heard.replayed} of ${heard.missed} it had not seen`,
    baseline: `a loop over the sockets, nothing kept: ${told(naive)}`,
    result: `p99 ${formatMilliseconds(heard.p99)}, ${each.toFixed(1)} us a frame, ${lost} lost`,
    target: 'nothing lost, p99 <= 50 ms, <= 25 us a frame',
    met: heard.wrong === 0 && lost === 0 && heard.p99 <= 50 && each <= 25,
    n: `${formatWithThousandsSeparators(total)} signals`,
  })
}

/** CPU microseconds per frame, of the server and of the clients. */
const perFrame = ({ heard, serverCpu }: SocketMeasurement): number =>
  (heard.cpu + serverCpu) / heard.frames

function told(measured: SocketMeasurement): string {
  const { heard, serverCpu } = measured
  const [all, server] = [perFrame(measured), serverCpu / heard.frames]
  return `p50 ${formatMilliseconds(heard.p50)}, p99 ${formatMilliseconds(heard.p99)}; CPU of server and clients ${all.toFixed(1)} us a frame, of the server ${server.toFixed(1)}`
}
