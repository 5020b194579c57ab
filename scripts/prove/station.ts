import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { openPool, type Sql } from '../../persistence/postgres/connect.ts'
import { readPidFile } from '../../persistence/postgres/pid-file.ts'
import { ROOT } from '../root.ts'

export { freePort } from './ports.ts'

/** Where the service is built for proofs and measurements, beside whatever `dist` holds. */
export const BUILT = join(ROOT, '.cache/station')

export interface StationOptions {
  readonly dataDir: string
  readonly port: number
  /** A folder with the built service. */
  readonly code?: string
  readonly env?: Readonly<Record<string, string>>
  readonly nodeArgs?: readonly string[]
}

/** The service in a process of its own. */
export interface Station {
  readonly url: string
  readonly pid: number
  /** Its boot line: which planes it runs on. */
  readonly plane: string
  /** Ends it without a chance to clean up. */
  kill(): Promise<void>
  stop(): Promise<void>
}

const READY_MS = 60_000
const KEPT_LINES = 30
const NOWHERE = 'http://127.0.0.1:9'

/** No request of a proof leaves this machine, and none is turned away for its rate. */
export const SETTINGS = {
  REDIS: 'none',
  RATE_LIMITS: 'off',
  LOG_LEVEL: 'error',
  BULK_ONBOARD_MAX: '100',
  COINGECKO_BASE: NOWHERE,
  COINBASE_BASE: NOWHERE,
  KRAKEN_BASE: NOWHERE,
  BINANCE_BASE: NOWHERE,
  DEFILLAMA_BASE: NOWHERE,
  WIKIPEDIA_BASE: NOWHERE,
  HACKERNEWS_BASE: NOWHERE,
  STACKEXCHANGE_BASE: NOWHERE,
  DUCKDUCKGO_BASE: NOWHERE,
  MASTODON_BASE: NOWHERE,
}

/** Builds the service from the sources as they are. */
export function build(): void {
  const info = join(ROOT, '.cache/station.tsbuildinfo')
  const options = ['-p', 'tsconfig.build.json', '--outDir', BUILT, '--tsBuildInfoFile', info]
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const built = spawnSync(process.execPath, [compiler, ...options], { cwd: ROOT, encoding: 'utf8' })
  if (built.status !== 0) throw new Error(`the service does not compile:\n${built.stdout}`)
}

/** A data directory of its own; the database's user must be able to enter it. */
export function newDataDir(parent = tmpdir()): string {
  const dir = mkdtempSync(join(parent, 'gas-station-proof-'))
  chmodSync(dir, 0o755)
  return dir
}

/** A proof that breaks off leaves no process behind. */
const running = new Set<ChildProcess>()
process.once('exit', () => running.forEach((child) => child.kill('SIGKILL')))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

/** Starts the service and waits until it says it is ready. */
export async function startStation(options: StationOptions): Promise<Station> {
  const { code = BUILT, dataDir, port, env = {}, nodeArgs = [] } = options
  const child = spawn(process.execPath, [...nodeArgs, join(code, 'app/main.js')], {
    cwd: dataDir,
    env: {
      PATH: process.env['PATH'] ?? '',
      ...SETTINGS,
      ...env,
      DATA_DIR: dataDir,
      PORT: String(port),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  const exited = new Promise<void>((done) => child.once('exit', () => done()))
  void exited.then(() => running.delete(child))
  const said = await readiness(child, exited)
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
    plane: said.find((line) => line.startsWith('plane: ')) ?? '',
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
  }
}

async function readiness(child: ChildProcess, exited: Promise<void>): Promise<string[]> {
  const said: string[] = []
  const ready = new Promise<boolean>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue
      createInterface(stream).on('line', (line) => {
        if (said.push(line) > KEPT_LINES) said.shift()
        if (line.startsWith('gas-station ready ')) resolve(true)
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

/** The database of an embedded station, wherever its server is at the moment. */
export function openDatabase(dataDir: string, max = 2): Sql {
  const socketDir = () => readPidFile(join(dataDir, 'pg18'))?.socketDir ?? dataDir
  return openPool({ socketDir, database: 'gas', user: 'gas' }, { max })
}

/** The process id of that server. */
export const postmasterOf = (dataDir: string): number | null =>
  readPidFile(join(dataDir, 'pg18'))?.pid ?? null
