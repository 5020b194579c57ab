import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import type { TAP } from 'tap'
import { compose, type Overrides, type Station } from '../../app/compose.ts'
import { loadConfig } from '../../app/config.ts'
import type { Sql } from '../../persistence/plane.ts'
import { verify } from '../../persistence/verify.ts'
import { statementFaults } from './statement-faults.ts'
import { door, type Answer, type Door } from './client.ts'
import { testDatabase, type TestDatabase } from './database.ts'
import { awayFromMidnight } from './midnight.ts'
import { freePort } from '../../scripts/prove/ports.ts'
import { programOf } from './program.ts'
import { ROOT } from '../../scripts/root.ts'

export { freePort }

type Test = Pick<TAP, 'teardown' | 'testdir' | 'strictSame' | 'comment'>

type Settings = Readonly<Record<string, string>>

/** Where nobody listens. */
const CLOSED = 'http://127.0.0.1:1'

const SETTINGS: Settings = {
  NODE_ENV: 'test',
  MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
  REDIS: 'none',
  RATE_LIMITS: 'off',
  LOG_LEVEL: 'silent',
  // Each forwarded address is a visitor of its own.
  TRUST_PROXY: '1',
  // A test that wants a browser says so.
  CHROMIUM_PATH: 'none',
  COINGECKO_BASE: CLOSED,
  COINBASE_BASE: CLOSED,
  KRAKEN_BASE: CLOSED,
  BINANCE_BASE: CLOSED,
  DEFILLAMA_BASE: CLOSED,
  RPC_URL_ETHEREUM: CLOSED,
  RPC_URL_ARBITRUM: CLOSED,
  RPC_URL_OPTIMISM: CLOSED,
  RPC_URL_POLYGON: CLOSED,
  DEXSCREENER_BASE: CLOSED,
  GECKOTERMINAL_BASE: CLOSED,
  WIKIPEDIA_BASE: CLOSED,
  HACKERNEWS_BASE: CLOSED,
  STACKEXCHANGE_BASE: CLOSED,
  DUCKDUCKGO_BASE: CLOSED,
  MASTODON_BASE: CLOSED,
}

/** A new agent with its first key. */
export interface Guest {
  readonly id: string
  readonly key: string
}

/** What can be done with a station, whichever process it runs in. */
export interface Served {
  readonly url: string
  readonly ask: Door
  /** A new agent; with `usdc` it keeps just so much of its starter credits. */
  onboard(usdc?: number): Promise<Guest>
  /** `POST /api/refuel`. */
  call(guest: Guest | null, tool: string, fields?: object, headers?: Settings): Promise<Answer>
  balance(guest: Guest): Promise<number>
}

export interface StartedStation extends Served {
  readonly station: Station
  readonly database: TestDatabase
  readonly sql: Sql
  /** Fails the test when `gas verify` would. */
  verify(): Promise<void>
}

/** The whole service in this process, on a database of its own unless one is given. */
export async function startStation(
  t: Test,
  settings: Settings = {},
  { database: given, ...overrides }: Overrides & { database?: TestDatabase } = {},
): Promise<StartedStation> {
  await awayFromMidnight()
  const database = given ?? (await testDatabase(t))
  const { databaseUrl } = database.settings
  const config = loadConfig({
    ...SETTINGS,
    DATABASE_URL: databaseUrl,
    DATA_DIR: t.testdir(),
    PUBLIC_URL: 'http://gas.test',
    ...settings,
  })
  const station = await compose(config, overrides)
  let open = true
  const close = async () => {
    if (open) await station.close()
    open = false
  }
  t.teardown(close)
  await station.server.listen({ port: 0, host: '127.0.0.1' })
  const { port } = station.server.server.address() as AddressInfo
  return {
    ...served(t, `http://127.0.0.1:${port}`),
    station: { ...station, close },
    database,
    sql: database.sql,
    verify: () => sound(t, database.sql),
  }
}

export interface SpawnedStation extends Served {
  readonly child: ChildProcess
  /** Everything it has said so far. */
  readonly said: string[]
  /** Sends a signal and waits for the end: its exit code, or the signal that ended it. */
  end(signal: NodeJS.Signals): Promise<number | string>
}

/** The service as a process of its own, ready to be called; `program` is what `node` runs. */
export async function spawnStation(
  t: Pick<TAP, 'teardown' | 'comment'>,
  settings: Settings,
  program: readonly string[] = programOf('main'),
): Promise<SpawnedStation> {
  await awayFromMidnight()
  const port = settings['PORT'] ?? String(await freePort())
  const child = spawn(process.execPath, [...program], {
    cwd: ROOT,
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
  const said: string[] = []
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  let asked = false
  void exited.then(([code, signal]) => {
    if (asked) return
    t.comment(`the station ended by itself (${code ?? signal}):\n${said.slice(-30).join('\n')}`)
  })
  const end = async (signal: NodeJS.Signals) => {
    asked = true
    child.kill(signal)
    const [code, killedBy] = await exited
    return code ?? killedBy ?? 'unknown'
  }
  t.teardown(() => end('SIGKILL'))
  createInterface(child.stderr).on('line', (line) => said.push(line))
  const ready = new Promise<void>((resolve) => {
    createInterface(child.stdout).on('line', (line) => {
      said.push(line)
      if (line.startsWith('gas-station ready ')) resolve()
    })
  })
  const ended = exited.then(() => {
    throw new Error(`the station ended before it was ready:\n${said.join('\n')}`)
  })
  await Promise.race([ready, ended])
  ended.catch(() => {})
  return { ...served(t, `http://127.0.0.1:${port}`), child, said, end }
}

/** A second node for a station of this process. */
export const spawnBeside = (t: Test, { database }: StartedStation, settings: Settings = {}) =>
  spawnStation(t, {
    DATABASE_URL: database.settings.databaseUrl,
    DATA_DIR: t.testdir(),
    PUBLIC_URL: 'http://gas.test',
    ...settings,
  })

export async function sound(t: Test, sql: Sql): Promise<void> {
  const findings = await verify(sql)
  const broken = findings.filter((finding) => finding.broken.length > 0)
  t.strictSame(broken, [], `gas verify finds nothing broken in ${findings.length} rules`)
  t.strictSame(await statementFaults(sql), [], 'statements add up')
}

function served(t: Pick<TAP, 'teardown'>, url: string): Served {
  const ask = door(t, url)
  let sink: Promise<Guest> | null = null

  async function join(): Promise<Guest> {
    const { status, body, text } = await ask('POST', '/api/onboard', { json: { name: 'tester' } })
    if (status !== 201) throw new Error(`onboarding answered ${status}: ${text}`)
    return { id: body.agent_id, key: body.api_key }
  }

  async function balance({ key }: Guest): Promise<number> {
    const { status, body, text } = await ask('GET', '/api/credits/balance', { key })
    if (status !== 200) throw new Error(`balance answered ${status}: ${text}`)
    return body.balance_usdc
  }

  async function onboard(usdc?: number): Promise<Guest> {
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
