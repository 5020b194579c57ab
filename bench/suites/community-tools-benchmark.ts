import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { median } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import {
  apiKeyHeader,
  createStationHttpClient,
  expectSuccessReply,
  onboardAgents,
  CHAOS_PAID_TOOL_REQUEST_BODY,
  type StationHttpClient,
} from '../../chaos/station-http-client.ts'
import {
  connectToEmbeddedStationDatabase,
  createProofDataDirectory,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import {
  runLoadGenerator,
  spawnBenchmarkChildProgram,
  type BenchmarkChildProgram,
} from '../benchmark-child-processes.ts'
import {
  createBenchmarkReportRow,
  formatFactor,
  formatMilliseconds,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'
import type { HttpLoadPlan, HttpLoadResult } from '../http-load-generator.ts'
import { seedAgents, seedApiKeys } from '../seed-agents.ts'

/** Benchmarks tools of agents: what a call adds to its endpoint, an import, and the neighbours of a hostile builder. */

const OPERATOR_TOKEN = 'o'.repeat(32)
const AGENTS = 200
const CALLS_PER_SECOND = 100
const CONNECTIONS = 64
const HOSTILE_PATHS = ['hang', 'drip', 'flood', 'schema', 'redirect'] as const
const CALLERS = 80
/** Hostile calls are spread over their 15 seconds after this time. */
const CALLERS_LEAD_MS = 3_000
const IMPORT_TIMEOUT_MS = 120_000
const [ADDED_P50_MS, ADDED_P99_MS, IMPORT_MS, NEIGHBOUR_FACTOR] = [25, 100, 10_000, 1.5]
const INPUT = { city: 'Rome' }

interface MarketBenchSetup {
  readonly url: string
  readonly port: number
  readonly client: StationHttpClient
  readonly keys: readonly string[]
  readonly quickPort: number
}

/** Starts a station of its own, without rate limits. */
export async function benchmarkCommunityTools(scale: BenchmarkScale): Promise<BenchmarkRow[]> {
  const [dataDir, port] = [createProofDataDirectory(), await findFreePort()]
  const services = [1, 2].map(() =>
    spawnBenchmarkChildProgram('community-tool-endpoints-child-process.ts', []),
  )
  const [quick, hostile] = services as [BenchmarkChildProgram, BenchmarkChildProgram]
  const [quickPort, hostilePort] = [Number(await quick.ask()), Number(await hostile.ask())]
  const env = {
    STARTER_CREDITS_USDC: '1000000',
    LOG_LEVEL: 'warn',
    PROMO_TRANSFERABLE: 'true',
    OPERATOR_TOKEN,
    SSRF_ALLOW: `127.0.0.1:${quickPort},127.0.0.1:${hostilePort}`,
  }
  const station = await spawnStationProcess({
    ...{ dataDir, port, env },
    // As `npm start` and the image run it.
    nodeArgs: ['--max-semi-space-size=16'],
  })
  const sql = connectToEmbeddedStationDatabase(dataDir)
  const client = createStationHttpClient(station.url, 4, IMPORT_TIMEOUT_MS)
  try {
    const keys = await seedApiKeys(dataDir, sql, await seedAgents(client, sql, AGENTS))
    await sellTools(client, quick, quickPort, 'quick', ['quick'])
    await sellTools(client, quick, quickPort, 'honest', ['quick'])
    await sellTools(client, hostile, hostilePort, 'hostile', HOSTILE_PATHS)
    const ground = { url: station.url, port, client, keys, quickPort }
    return [
      await addedLatencyRow(ground, scale),
      await importRow(ground, scale),
      ...(await neighbourRows(ground, scale)),
    ]
  } finally {
    await client.close()
    await sql.end({ timeout: 1 })
    await station.stop()
    await Promise.all(services.map((service) => service.stop()))
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** An agent of its own sells a tool for each path of a service. */
async function sellTools(
  client: StationHttpClient,
  service: BenchmarkChildProgram,
  port: number,
  prefix: string,
  paths: readonly string[],
): Promise<void> {
  const [builder] = await onboardAgents(client, 1)
  if (builder === undefined) throw new Error('no builder was made')
  const register = (slug: string, path: string) =>
    expectSuccessReply(
      client.send('POST', '/api/tools/register', apiKeyHeader(builder), {
        ...{ slug, name: slug, description: 'The temperature of a city.' },
        endpoint_url: `http://127.0.0.1:${port}/${path}`,
        output_schema: { type: 'object', properties: { celsius: { type: 'number' } } },
        price_per_call_usdc: 0.001,
        accepts_promo: true,
      }),
    )
  // The first answer has the token; later tools of the origin are proven at once.
  const { challenge } = await register(`${prefix}-token`, 'token')
  await service.ask((challenge as { token: string }).token)
  for (const path of paths) await register(toSlug(prefix, path), path)
}

const toSlug = (prefix: string, path: string) => `${prefix}-${path}`

type Load = Pick<HttpLoadPlan, 'port' | 'path' | 'body' | 'keys'>

const runAtSteadyRate = async (
  load: Load,
  { warmUpMs, measureMs }: BenchmarkScale,
): Promise<HttpLoadResult> => {
  const result = await runLoadGenerator({
    ...load,
    ...{ connections: CONNECTIONS, rate: CALLS_PER_SECOND, warmUpMs, measureMs },
  })
  if (result.failed > 0) throw new Error(`${result.failed} of ${result.answers} calls failed`)
  return result
}

const sold = ({ port, keys }: MarketBenchSetup): Load => ({
  ...{ port, keys, body: INPUT },
  path: `/api/tools/${toSlug('quick', 'quick')}/invoke`,
})

const medians = (results: readonly HttpLoadResult[]) => ({
  p50: median(results.map(({ p50 }) => p50)),
  p99: median(results.map(({ p99 }) => p99)),
})

const describe = ({ p50, p99 }: { p50: number; p99: number }) =>
  `p50 ${formatMilliseconds(p50)}, p99 ${formatMilliseconds(p99)}`

/** The same endpoint through the station and directly, by turns. */
async function addedLatencyRow(
  ground: MarketBenchSetup,
  scale: BenchmarkScale,
): Promise<BenchmarkRow> {
  const [through, direct] = [[] as HttpLoadResult[], [] as HttpLoadResult[]]
  for (let round = 0; round < scale.rounds; round += 1) {
    direct.push(
      await runAtSteadyRate(
        { port: ground.quickPort, path: '/quick', body: INPUT, keys: [] },
        scale,
      ),
    )
    through.push(await runAtSteadyRate(sold(ground), scale))
  }
  const [ours, theirs] = [medians(through), medians(direct)]
  const added = { p50: ours.p50 - theirs.p50, p99: ours.p99 - theirs.p99 }
  return createBenchmarkReportRow({
    what: `${CALLS_PER_SECOND} calls/s of a community tool over ${AGENTS} agents, against direct calls of its endpoint`,
    measured: describe(ours),
    baseline: describe(theirs),
    result: `added ${describe(added)}`,
    target: `added p50 <= ${ADDED_P50_MS} ms, p99 <= ${ADDED_P99_MS} ms`,
    met: added.p50 <= ADDED_P50_MS && added.p99 <= ADDED_P99_MS,
    n: `${scale.rounds} rounds`,
  })
}

const ARMS = ['none', 'honest', 'hostile'] as const
type Arm = (typeof ARMS)[number]

/**
 * Calls of another builder's tool and of a native one, by turns: alone, beside callers of an honest builder, and
 * beside the same callers of a hostile one.
 */
async function neighbourRows(
  ground: MarketBenchSetup,
  scale: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const native = { port: ground.port, path: '/api/refuel', body: CHAOS_PAID_TOOL_REQUEST_BODY }
  const loads: Readonly<Record<string, Load>> = {
    'a community tool': sold(ground),
    'a native tool': { ...native, keys: ground.keys },
  }
  const rows: BenchmarkRow[] = []
  for (const [name, load] of Object.entries(loads)) {
    const results: Record<Arm, HttpLoadResult[]> = { none: [], honest: [], hostile: [] }
    let answers = ''
    for (let round = 0; round < scale.rounds; round += 1)
      for (const arm of ARMS) {
        const { result, callerAnswers } = await runBesideCallers(ground, arm, load, scale)
        results[arm].push(result)
        answers = callerAnswers
      }
    const alone = medians(results.none)
    const honest = medians(results.honest)
    const ours = medians(results.hostile)
    const factor = ours.p99 / alone.p99
    rows.push(
      createBenchmarkReportRow({
        what: `${CALLS_PER_SECOND} calls/s of ${name} while ${CALLERS} callers call, once a second each, tools of a builder that hangs, drips, floods, redirects or answers another schema`,
        measured: `${describe(ours)}; hostile answers of the last round ${answers}`,
        baseline: `without callers: ${describe(alone)}; the same callers at an honest builder: ${describe(honest)}`,
        result: `p99 ${formatFactor(factor)} of that without callers, ${formatFactor(ours.p99 / honest.p99)} of that beside the honest builder`,
        target: `p99 <= ${NEIGHBOUR_FACTOR}x of that without callers`,
        met: factor <= NEIGHBOUR_FACTOR,
        n: `${scale.rounds} rounds`,
      }),
    )
  }
  return rows
}

async function runBesideCallers(
  ground: MarketBenchSetup,
  arm: Arm,
  load: Load,
  scale: BenchmarkScale,
): Promise<{ result: HttpLoadResult; callerAnswers: string }> {
  if (arm === 'none') return { result: await runAtSteadyRate(load, scale), callerAnswers: '' }
  const callers = spawnCallers(ground, arm === 'hostile' ? HOSTILE_PATHS : ['quick'], arm)
  await callers.ask()
  await pause(CALLERS_LEAD_MS)
  const result = await runAtSteadyRate(load, scale)
  const last = callers.ask()
  await callers.stop()
  return { result, callerAnswers: await last }
}

const spawnCallers = (
  { url, keys }: MarketBenchSetup,
  paths: readonly string[],
  prefix: string,
): BenchmarkChildProgram =>
  spawnBenchmarkChildProgram('community-tool-load-generator.ts', [
    url,
    paths.map((path) => toSlug(prefix, path)).join(','),
    keys.slice(0, CALLERS).join(','),
  ])

/** One request that makes 200 tools. */
async function importRow(
  { client, quickPort }: MarketBenchSetup,
  { rounds }: BenchmarkScale,
): Promise<BenchmarkRow> {
  const times: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const [builder] = await onboardAgents(client, 1)
    if (builder === undefined) throw new Error('no builder was made')
    const headers = { ...apiKeyHeader(builder), 'x-operator-token': OPERATOR_TOKEN }
    const startedAt = performance.now()
    const { count } = await expectSuccessReply(
      client.send('POST', '/api/tools/import', headers, {
        openapi_url: `http://127.0.0.1:${quickPort}/openapi.json`,
        price_per_call_usdc: 0.001,
        prefix: `round-${'abcdefghij'[round]}`,
      }),
    )
    times.push(performance.now() - startedAt)
    if (count !== 200) throw new Error(`${String(count)} tools were imported`)
  }
  const took = median(times)
  return createBenchmarkReportRow({
    what: 'import of an OpenAPI document with 200 operations, one request',
    measured: times.map(formatMilliseconds).join(', '),
    baseline: '',
    result: formatMilliseconds(took),
    target: `<= ${formatMilliseconds(IMPORT_MS)}`,
    met: took <= IMPORT_MS,
    n: `${rounds} imports`,
  })
}
