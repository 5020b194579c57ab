import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import type { TAP } from 'tap'
import {
  composeStation,
  type StationTestOverrides,
  type Station,
} from '../../../app/compose/compose-station.ts'
import { loadConfig } from '../../../app/config.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { verifyDatabaseInvariants } from '../../../persistence/verify/verify-database-invariants.ts'
import { findAccountStatementFaults } from '../ledger/find-account-statement-faults.ts'
import {
  createTestHttpClient,
  type TestReply,
  type TestHttpClient,
} from '../http/test-http-client.ts'
import { createTestDatabase, type TestDatabase } from '../postgres/test-database.ts'
import { waitPastMidnight } from './wait-past-midnight.ts'
import { findFreePort } from '../../../chaos/free-port.ts'
import { serviceProgramArgs } from './node-args-to-spawn-service-or-cli.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { createStationDataDir } from './temporary-station-data-directory.ts'

/** Starts the service for a test, in this process or as its own. */

type Test = Pick<TAP, 'teardown' | 'strictSame' | 'comment'>

type Settings = Readonly<Record<string, string>>

/** An address without a listener. */
const UNREACHABLE_URL = 'http://127.0.0.1:1'

const SETTINGS: Settings = {
  NODE_ENV: 'test',
  MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
  REDIS: 'none',
  // Each connection is a process of PostgreSQL, and a station opens all at its start.
  DATABASE_CONNECTIONS: '6',
  RATE_LIMITS: 'off',
  LOG_LEVEL: 'silent',
  // Each forwarded address is a visitor of its own.
  TRUST_PROXY: '1',
  // Tests with a browser set it explicitly.
  CHROMIUM_PATH: 'none',
  COINGECKO_BASE: UNREACHABLE_URL,
  COINBASE_BASE: UNREACHABLE_URL,
  KRAKEN_BASE: UNREACHABLE_URL,
  BINANCE_BASE: UNREACHABLE_URL,
  DEFILLAMA_BASE: UNREACHABLE_URL,
  RPC_URL_ETHEREUM: UNREACHABLE_URL,
  RPC_URL_ARBITRUM: UNREACHABLE_URL,
  RPC_URL_OPTIMISM: UNREACHABLE_URL,
  RPC_URL_POLYGON: UNREACHABLE_URL,
  DEXSCREENER_BASE: UNREACHABLE_URL,
  GECKOTERMINAL_BASE: UNREACHABLE_URL,
  WIKIPEDIA_BASE: UNREACHABLE_URL,
  HACKERNEWS_BASE: UNREACHABLE_URL,
  STACKEXCHANGE_BASE: UNREACHABLE_URL,
  DUCKDUCKGO_BASE: UNREACHABLE_URL,
  MASTODON_BASE: UNREACHABLE_URL,
}

/** A new agent with its first key. */
export interface TestAgent {
  readonly id: string
  readonly key: string
}

/** Operations on a station in this process or another one. */
export interface TestStation {
  readonly url: string
  readonly ask: TestHttpClient
  /** A new agent; with `usdc` only this much of its starter credits remains. */
  onboard(usdc?: number): Promise<TestAgent>
  /** `POST /api/refuel`. */
  call(
    guest: TestAgent | null,
    tool: string,
    fields?: object,
    headers?: Settings,
  ): Promise<TestReply>
  balance(guest: TestAgent): Promise<number>
}

export interface InProcessStation extends TestStation {
  readonly station: Station
  readonly database: TestDatabase
  readonly sql: Sql
  /** Fails the test when `gas verify` would. */
  verify(): Promise<void>
}

/** The whole service in this process, on a database of its own unless one is given. */
export async function startInProcessTestStation(
  t: Test,
  settings: Settings = {},
  { database: given, ...overrides }: StationTestOverrides & { database?: TestDatabase } = {},
): Promise<InProcessStation> {
  await waitPastMidnight()
  const database = given ?? (await createTestDatabase(t))
  const { databaseUrl } = database.settings
  const config = loadConfig({
    ...SETTINGS,
    DATABASE_URL: databaseUrl,
    DATA_DIR: createStationDataDir(t),
    PUBLIC_URL: 'http://gas.test',
    ...settings,
  })
  const station = await composeStation(config, overrides)
  let open = true
  const close = async () => {
    if (open) await station.close()
    open = false
  }
  t.teardown(close)
  await station.server.listen({ port: 0, host: '127.0.0.1' })
  const { port } = station.server.server.address() as AddressInfo
  return {
    ...createTestStation(t, `http://127.0.0.1:${port}`),
    station: { ...station, close },
    database,
    sql: database.sql,
    verify: () => assertLedgerSound(t, database.sql),
  }
}

export interface ChildProcessStation extends TestStation {
  readonly child: ChildProcess
  /** Its output so far. */
  readonly outputLines: string[]
  /** Sends a signal and waits for the end: its exit code, or the signal that ended it. */
  end(signal: NodeJS.Signals): Promise<number | string>
}

/** The service as a process of its own, ready to be called; `program` is what `node` runs. */
export async function spawnTestStationProcess(
  t: Pick<TAP, 'teardown' | 'comment'>,
  settings: Settings,
  program: readonly string[] = serviceProgramArgs('main'),
): Promise<ChildProcessStation> {
  await waitPastMidnight()
  const port = settings['PORT'] ?? String(await findFreePort())
  const child = spawn(process.execPath, [...program], {
    cwd: REPOSITORY_ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      ...SETTINGS,
      PORT: port,
      LOG_LEVEL: 'warn',
      ...settings,
    },
  })
  const outputLines: string[] = []
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  let asked = false
  void exited.then(([code, signal]) => {
    if (asked) return
    t.comment(
      `the station ended by itself (${code ?? signal}):\n${outputLines.slice(-30).join('\n')}`,
    )
  })
  const end = async (signal: NodeJS.Signals) => {
    asked = true
    child.kill(signal)
    const [code, killedBy] = await exited
    return code ?? killedBy ?? 'unknown'
  }
  t.teardown(() => end('SIGKILL'))
  createInterface(child.stderr).on('line', (line) => outputLines.push(line))
  const ready = new Promise<void>((resolve) => {
    createInterface(child.stdout).on('line', (line) => {
      outputLines.push(line)
      if (line.includes('gas-station ready ')) resolve()
    })
  })
  const ended = exited.then(() => {
    throw new Error(`the station ended before it was ready:\n${outputLines.join('\n')}`)
  })
  await Promise.race([ready, ended])
  ended.catch(() => {})
  return { ...createTestStation(t, `http://127.0.0.1:${port}`), child, outputLines, end }
}

/** A second node for a station of this process. */
export const spawnSecondNode = (t: Test, { database }: InProcessStation, settings: Settings = {}) =>
  spawnTestStationProcess(t, {
    DATABASE_URL: database.settings.databaseUrl,
    DATA_DIR: createStationDataDir(t),
    PUBLIC_URL: 'http://gas.test',
    ...settings,
  })

export async function assertLedgerSound(t: Test, sql: Sql): Promise<void> {
  const findings = await verifyDatabaseInvariants(sql)
  const broken = findings.filter((finding) => finding.broken.length > 0)
  t.strictSame(broken, [], `gas verify finds nothing broken in ${findings.length} rules`)
  t.strictSame(await findAccountStatementFaults(sql), [], 'statements add up')
}

function createTestStation(t: Pick<TAP, 'teardown'>, url: string): TestStation {
  const ask = createTestHttpClient(t, url)
  let sink: Promise<TestAgent> | null = null

  async function join(): Promise<TestAgent> {
    const { status, body, text } = await ask('POST', '/api/onboard', { json: { name: 'tester' } })
    if (status !== 201) throw new Error(`onboarding answered ${status}: ${text}`)
    return { id: body.agent_id, key: body.api_key }
  }

  async function balance({ key }: TestAgent): Promise<number> {
    const { status, body, text } = await ask('GET', '/api/credits/balance', { key })
    if (status !== 200) throw new Error(`balance answered ${status}: ${text}`)
    return body.balance_usdc
  }

  async function onboard(usdc?: number): Promise<TestAgent> {
    const guest = await join()
    if (usdc === undefined) return guest
    sink ??= join()
    const surplus = Math.round(((await balance(guest)) - usdc) * 1e6) / 1e6
    const gift = { to_agent_id: (await sink).id, amount_usdc: surplus }
    const { status, text } = await ask('POST', '/api/agent/send', { key: guest.key, json: gift })
    if (status !== 200) throw new Error(`sending answered ${status}: ${text}`)
    return guest
  }

  return {
    url,
    ask,
    onboard,
    balance,
    call: (guest, tool, fields = {}, headers = {}) =>
      ask('POST', '/api/refuel', { key: guest?.key, json: { tool, ...fields }, headers }),
  }
}
