import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { openPostgresPool, type Sql } from '../persistence/postgres/postgres-connection-pool.ts'
import { readPostmasterPidFile } from '../persistence/postgres/postmaster-pid-file.ts'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'

/** Build folder of the service for proofs and benchmarks, separate from `dist`. */
export const STATION_BUILD_DIR = join(REPOSITORY_ROOT, '.cache/station')

export interface StationProcessOptions {
  readonly dataDir: string
  readonly port: number
  /** A folder with the built service. */
  readonly code?: string
  readonly env?: Readonly<Record<string, string>>
  readonly nodeArgs?: readonly string[]
}

/** The service in a child process. */
export interface StationProcess {
  readonly url: string
  readonly pid: number
  /** Its boot line, which names the planes. */
  readonly bootLine: string
  /** Kills it without a clean shutdown. */
  kill(): Promise<void>
  stop(): Promise<void>
}

const READY_MS = 60_000
const MAX_OUTPUT_LINES = 30
const UNREACHABLE_URL = 'http://127.0.0.1:9'

/** Disables outgoing requests and rate limits. */
export const OFFLINE_STATION_SETTINGS = {
  REDIS: 'none',
  RATE_LIMITS: 'off',
  LOG_LEVEL: 'error',
  BULK_ONBOARD_MAX: '100',
  COINGECKO_BASE: UNREACHABLE_URL,
  COINBASE_BASE: UNREACHABLE_URL,
  KRAKEN_BASE: UNREACHABLE_URL,
  BINANCE_BASE: UNREACHABLE_URL,
  DEFILLAMA_BASE: UNREACHABLE_URL,
  WIKIPEDIA_BASE: UNREACHABLE_URL,
  HACKERNEWS_BASE: UNREACHABLE_URL,
  STACKEXCHANGE_BASE: UNREACHABLE_URL,
  DUCKDUCKGO_BASE: UNREACHABLE_URL,
  MASTODON_BASE: UNREACHABLE_URL,
}

/** Builds the service from the current sources. */
export function compileStationFromSources(): void {
  const info = join(REPOSITORY_ROOT, '.cache/station.tsbuildinfo')
  const options = [
    '-p',
    'tsconfig.build.json',
    '--outDir',
    STATION_BUILD_DIR,
    '--tsBuildInfoFile',
    info,
  ]
  const compiler = join(REPOSITORY_ROOT, 'node_modules/typescript/bin/tsc')
  const built = spawnSync(process.execPath, [compiler, ...options], {
    cwd: REPOSITORY_ROOT,
    encoding: 'utf8',
  })
  if (built.status !== 0) throw new Error(`the service does not compile:\n${built.stdout}`)
}

/** Creates a data directory that is readable for the database's user. */
export function createProofDataDirectory(parent = tmpdir()): string {
  const dir = mkdtempSync(join(parent, 'gas-station-proof-'))
  chmodSync(dir, 0o755)
  return dir
}

/** Killed when the proof aborts. */
const runningProcesses = new Set<ChildProcess>()
process.once('exit', () => runningProcesses.forEach((child) => child.kill('SIGKILL')))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

/** Starts the service and waits for its ready line. */
export async function spawnStationProcess(options: StationProcessOptions): Promise<StationProcess> {
  const { code = STATION_BUILD_DIR, dataDir, port, env = {}, nodeArgs = [] } = options
  const child = spawn(process.execPath, [...nodeArgs, join(code, 'app/main.js')], {
    cwd: dataDir,
    env: {
      PATH: process.env['PATH'] ?? '',
      ...OFFLINE_STATION_SETTINGS,
      ...env,
      DATA_DIR: dataDir,
      PORT: String(port),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  runningProcesses.add(child)
  const exited = new Promise<void>((done) => child.once('exit', () => done()))
  void exited.then(() => runningProcesses.delete(child))
  const said = await waitForReady(child, exited)
  let asked = false
  void exited.then(() => {
    if (asked) return
    const how = child.exitCode ?? child.signalCode
    console.error(`a station ended by itself (${how}):\n${said.join('\n')}`)
  })
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    asked = true
    child.kill(signal)
    await exited
  }
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid ?? 0,
    bootLine: /plane: [^"]*/.exec(said.join('\n'))?.[0] ?? '',
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
  }
}

async function waitForReady(child: ChildProcess, exited: Promise<void>): Promise<string[]> {
  const said: string[] = []
  const ready = new Promise<boolean>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue
      createInterface(stream).on('line', (line) => {
        if (said.push(line) > MAX_OUTPUT_LINES) said.shift()
        if (line.includes('gas-station ready ')) resolve(true)
      })
    }
  })
  const patience = new AbortController()
  const late = sleep(READY_MS, false, { signal: patience.signal }).catch(() => false)
  const up = await Promise.race([ready, exited.then(() => false), late])
  patience.abort()
  if (up) return said
  child.kill('SIGKILL')
  throw new Error(`the station did not start:\n${said.join('\n')}`)
}

/** Connects to the database of an embedded station on its current port. */
export function connectToEmbeddedStationDatabase(dataDir: string, max = 2, database = 'gas'): Sql {
  const socketDir = () => readPostmasterPidFile(join(dataDir, 'pg18'))?.socketDir ?? dataDir
  return openPostgresPool({ socketDir, database, user: 'gas' }, { max })
}

/** The process id of that database server. */
export const readPostmasterPid = (dataDir: string): number | null =>
  readPostmasterPidFile(join(dataDir, 'pg18'))?.pid ?? null
