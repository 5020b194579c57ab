import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { median } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import {
  expectSuccessReply,
  CHAOS_PAID_TOOL_REQUEST_BODY,
  type StationHttpClient,
} from '../../chaos/station-http-client.ts'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { runLoadGenerator, spawnBenchmarkChildProgram } from '../benchmark-child-processes.ts'
import {
  createBenchmarkReportRow,
  formatFactor,
  formatMilliseconds,
  formatWithThousandsSeparators,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'
import type { WebSocketRefuelPlan, WebSocketRefuelReport } from '../websocket-refuel-callers.ts'
import type { HttpBenchServerPortsAndKeys } from './http-throughput-benchmark.ts'

/** Benchmarks the other ways to the same paid call, each by turns with the plain one. */

const CONNECTIONS = 64
/** Enough that no socket reaches its limit of frames. */
const SOCKETS = 256
const AGENTS = 256
const PIPELINE_CALLS = 10
const SCHEDULING_AGENTS = 50
const SCHEDULES_PER_AGENT = 20
const SCHEDULES_TIMEOUT_MS = 120_000
const POLL_MS = 250

interface CallsPerSecond {
  /** Paid calls, not requests. */
  readonly rate: number
  readonly p50: number
  readonly p99: number
}

interface CallShape {
  readonly name: string
  run(): Promise<CallsPerSecond>
}

/** A pipeline, an event stream and a WebSocket beside `POST /api/refuel`, then runs of schedules. */
export async function benchmarkCallTransportsAndSchedules(
  field: HttpBenchServerPortsAndKeys,
  client: StationHttpClient,
  database: Sql,
  scale: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const keys = field.keys.slice(0, AGENTS)
  await assertPipelineCharges(client, keys[0] ?? '')
  const plain = httpShape(
    'plain',
    field.station,
    keys,
    scale,
    '/api/refuel',
    CHAOS_PAID_TOOL_REQUEST_BODY,
  )
  const stream = '/api/refuel/stream'
  const shapes = [
    pipelineShape(field.station, keys, scale),
    httpShape('event stream', field.station, keys, scale, stream, CHAOS_PAID_TOOL_REQUEST_BODY),
    websocketShape(field.station, keys, scale),
  ]
  const rows: BenchmarkRow[] = []
  const plainRates: number[] = []
  for (const shape of shapes) {
    const [ours, beside] = await measureByTurns(shape, plain, scale.rounds)
    plainRates.push(beside.rate)
    rows.push(createShapeRow(shape.name, ours, beside, scale.rounds))
  }
  const scheduled = await measureScheduleRuns(
    field.keys.slice(0, SCHEDULING_AGENTS),
    client,
    database,
  )
  return [...rows, createSchedulesRow(scheduled, median(plainRates))]
}

const pipelineBody = {
  calls: Array.from({ length: PIPELINE_CALLS }, () => CHAOS_PAID_TOOL_REQUEST_BODY),
}

/** A pipeline answers 200 even where its calls fail, so that one is read before they are counted. */
async function assertPipelineCharges(client: StationHttpClient, key: string): Promise<void> {
  const answer = await expectSuccessReply(
    client.send('POST', '/api/pipeline', { 'x-api-key': key }, pipelineBody),
  )
  const text = JSON.stringify(answer)
  const charged = text.split('"cost_usdc":0.005').length - 1
  if (charged < PIPELINE_CALLS) throw new Error(`a pipeline did not charge its calls: ${text}`)
}

function httpShape(
  name: string,
  port: number,
  keys: readonly string[],
  { warmUpMs, measureMs }: BenchmarkScale,
  path: string,
  body: object,
): CallShape {
  return {
    name,
    async run() {
      const plan = { port, path, body, keys, connections: CONNECTIONS, warmUpMs, measureMs }
      const result = await runLoadGenerator(plan)
      if (result.failed > 0)
        throw new Error(`${result.failed} of ${result.answers} failed: ${name}`)
      return result
    },
  }
}

function pipelineShape(port: number, keys: readonly string[], scale: BenchmarkScale): CallShape {
  const name = `pipeline of ${PIPELINE_CALLS}`
  const { run } = httpShape(name, port, keys, scale, '/api/pipeline', pipelineBody)
  return {
    name,
    async run() {
      const result = await run()
      return { ...result, rate: result.rate * PIPELINE_CALLS }
    },
  }
}

function websocketShape(
  port: number,
  keys: readonly string[],
  { warmUpMs, measureMs }: BenchmarkScale,
): CallShape {
  return {
    name: `WebSocket, ${SOCKETS} of them`,
    async run() {
      const plan: WebSocketRefuelPlan = {
        url: `http://127.0.0.1:${port}/api/ws`,
        keys: keys.slice(0, SOCKETS),
        call: CHAOS_PAID_TOOL_REQUEST_BODY,
        warmUpMs,
        measureMs,
      }
      const dir = mkdtempSync(join(tmpdir(), 'gas-station-sockets-'))
      const file = join(dir, 'plan.json')
      writeFileSync(file, JSON.stringify(plan))
      const callers = spawnBenchmarkChildProgram('websocket-refuel-callers.ts', [file])
      try {
        const report = JSON.parse(await callers.ask()) as WebSocketRefuelReport
        if (report.failed > 0) throw new Error(`${report.failed} calls over WebSocket failed`)
        return report
      } finally {
        await callers.stop()
        rmSync(dir, { recursive: true, force: true })
      }
    },
  }
}

async function measureByTurns(
  shape: CallShape,
  plain: CallShape,
  rounds: number,
): Promise<[CallsPerSecond, CallsPerSecond]> {
  const [ours, beside] = [[] as CallsPerSecond[], [] as CallsPerSecond[]]
  for (let at = 0; at < rounds; at++) {
    ours.push(await shape.run())
    beside.push(await plain.run())
  }
  return [toMedians(ours), toMedians(beside)]
}

const toMedians = (results: readonly CallsPerSecond[]): CallsPerSecond => ({
  rate: median(results.map(({ rate }) => rate)),
  p50: median(results.map(({ p50 }) => p50)),
  p99: median(results.map(({ p99 }) => p99)),
})

const formatCalls = ({ rate, p50, p99 }: CallsPerSecond): string =>
  `${formatWithThousandsSeparators(rate)} calls/s, a request p50 ${formatMilliseconds(p50)}, p99 ${formatMilliseconds(p99)}`

function createShapeRow(
  name: string,
  ours: CallsPerSecond,
  plain: CallsPerSecond,
  rounds: number,
): BenchmarkRow {
  return createBenchmarkReportRow({
    what: `paid calls by ${name} over ${AGENTS} agents, against POST /api/refuel`,
    measured: formatCalls(ours),
    baseline: formatCalls(plain),
    result: formatFactor(ours.rate / plain.rate),
    target: 'printed',
    met: true,
    n: `${rounds} rounds`,
  })
}

interface ScheduledRuns {
  readonly runs: number
  readonly seconds: number
}

/** Makes the slots of many schedules due at once, and measures from the first run to the last. */
async function measureScheduleRuns(
  keys: readonly string[],
  client: StationHttpClient,
  sql: Sql,
): Promise<ScheduledRuns> {
  const { tool, ...params } = CHAOS_PAID_TOOL_REQUEST_BODY
  const schedule = { interval: '1h', tool, params }
  for (const key of keys) {
    const create = () =>
      expectSuccessReply(client.send('POST', '/api/task/schedule', { 'x-api-key': key }, schedule))
    await Promise.all(Array.from({ length: SCHEDULES_PER_AGENT }, create))
  }
  const expected = keys.length * SCHEDULES_PER_AGENT
  const before = await countRuns(sql)
  await sql`update timers set due_at = clock_timestamp() where command = 'schedule.run'`
  const until = performance.now() + SCHEDULES_TIMEOUT_MS
  while ((await countRuns(sql)) - before < expected) {
    if (performance.now() > until) throw new Error('schedules did not run')
    await pause(POLL_MS)
  }
  const [row] = await sql<{ runs: number; failed: number; seconds: number }[]>`
    select count(*)::int as runs, count(*) filter (where not ok)::int as failed,
           extract(epoch from max(at) - min(at))::float8 as seconds from schedule_runs`
  if (row === undefined || row.failed > 0) throw new Error(`${row?.failed} scheduled runs failed`)
  return row
}

async function countRuns(sql: Sql): Promise<number> {
  const [row] = await sql<{ runs: number }[]>`select count(*)::int as runs from schedule_runs`
  return row?.runs ?? 0
}

function createSchedulesRow({ runs, seconds }: ScheduledRuns, plainRate: number): BenchmarkRow {
  const rate = runs / seconds
  return createBenchmarkReportRow({
    what: `runs of schedules that are due at once, ${SCHEDULES_PER_AGENT} each of ${SCHEDULING_AGENTS} agents, against POST /api/refuel`,
    measured: `${formatWithThousandsSeparators(rate)} runs/s, ${formatWithThousandsSeparators(runs)} runs in ${seconds.toFixed(1)} s`,
    baseline: `${formatWithThousandsSeparators(plainRate)} calls/s`,
    result: formatFactor(rate / plainRate),
    target: 'printed',
    met: true,
    n: `${formatWithThousandsSeparators(runs)} runs`,
  })
}
