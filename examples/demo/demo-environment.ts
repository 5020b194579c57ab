import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import {
  startLocalBase,
  startLocalTempo,
  type LocalChain,
} from '../../test/support/chain/local-chain.ts'
import {
  connectToEmbeddedStationDatabase,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import { startAllTestUpstreams } from '../../test/support/upstreams/all-test-upstreams.ts'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'

/** Local servers that the demo needs. */
export interface DemoEnvironment {
  readonly url: string
  /** The boot line of the station. */
  readonly bootLine: string
  readonly base: LocalChain
  readonly tempo: LocalChain
  /** Receives payments; a new account for each run. */
  readonly treasury: `0x${string}`
  /** One local website that answers for all hosts. */
  readonly site: string
  readonly sql: Sql
  /** Runs a `gas` command against the station's data directory. */
  gas(command: string): Promise<{ code: number; said: string }>
  stop(): Promise<void>
}

const ETHER = 10n ** 18n
/** Exit code of shells for an interrupted program. */
const INTERRUPTED_EXIT_CODE = 130
const TSX = import.meta.resolve('tsx')

/**
 * Starts two chains, local replacements of all upstream APIs, and the station with a temporary
 * database.
 */
export async function startDemoEnvironment(): Promise<DemoEnvironment> {
  const closing: (() => unknown)[] = []
  const closeAll = async () => {
    for (const close of closing.toReversed()) await close()
  }
  const building = buildEnvironment((close) => void closing.push(close))
  let stopped: Promise<void> | undefined
  // Waits for the start to finish before closing, because a half-started environment cannot be
  // closed.
  const stop = () => (stopped ??= building.then(closeAll, closeAll))
  stopOnSignal(stop)
  try {
    return { ...(await building), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Stops the environment on a signal. */
function stopOnSignal(stop: () => Promise<void>): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    // Earlier listeners would exit the process immediately.
    process.removeAllListeners(signal).once(signal, () => {
      console.error('\nThe demo was interrupted.')
      process.exitCode = INTERRUPTED_EXIT_CODE
      void stop().finally(() => process.exit(INTERRUPTED_EXIT_CODE))
    })
  }
}

async function buildEnvironment(
  later: (close: () => unknown) => void,
): Promise<Omit<DemoEnvironment, 'stop'>> {
  const [base, tempo] = await Promise.all([startLocalBase(), startLocalTempo()])
  later(base.stop)
  later(tempo.stop)
  const { settings, site } = await startAllTestUpstreams({ teardown: later }, base.rpcUrl)
  const settler = generatePrivateKey()
  const treasury = addressOf(generatePrivateKey())
  await base.fund(addressOf(settler), ETHER)
  const dataDir = createDataDir()
  later(() => rmSync(dataDir, { recursive: true, force: true }))
  const station = await spawnStationProcess({
    code: REPOSITORY_ROOT,
    nodeArgs: ['--import', TSX],
    dataDir,
    port: await findFreePort(),
    env: {
      ...settings,
      RPC_URL_TEMPO: tempo.rpcUrl,
      MPP_CURRENCY: tempo.usdc,
      TREASURY_ADDRESS: treasury,
      SETTLER_PRIVATE_KEY: settler,
    },
  })
  later(station.stop)
  const sql = connectToEmbeddedStationDatabase(dataDir)
  later(() => sql.end({ timeout: 1 }))
  const { url, bootLine } = station
  const ask = (command: string) => runGasCommand(command, dataDir)
  return { url, bootLine, base, tempo, treasury, site, sql, gas: ask }
}

const addressOf = (key: `0x${string}`) =>
  privateKeyToAccount(key).address.toLowerCase() as typeof key

/** The directory must be readable for the database's user. */
function createDataDir(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gas-station-demo-'))
  chmodSync(folder, 0o755)
  return folder
}

async function runGasCommand(
  command: string,
  dataDir: string,
): Promise<{ code: number; said: string }> {
  const child = spawn(
    process.execPath,
    ['--import', TSX, join(REPOSITORY_ROOT, 'app/cli/main.ts'), command],
    {
      cwd: dataDir,
      env: { PATH: process.env['PATH'] ?? '', DATA_DIR: dataDir },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  let said = ''
  child.stdout.on('data', (text: Buffer) => (said += text.toString()))
  child.stderr.on('data', (text: Buffer) => (said += text.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code: code ?? 1, said }
}
