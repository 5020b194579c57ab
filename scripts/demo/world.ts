import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { startBase, startTempo, type LocalChain } from '../chain/local-chain.ts'
import { freePort, openDatabase, startStation } from '../prove/station.ts'
import { ROOT } from '../root.ts'
import { town } from '../../test/support/upstreams/town.ts'
import type { Sql } from '../../persistence/postgres/connect.ts'

/** Everything the day needs, on this machine alone. */
export interface World {
  readonly url: string
  /** The boot line of the station. */
  readonly plane: string
  readonly base: LocalChain
  readonly tempo: LocalChain
  /** Where payments go; an account of this run. */
  readonly treasury: `0x${string}`
  /** A website that stands for every website. */
  readonly site: string
  readonly sql: Sql
  /** Runs a `gas` command beside the station. */
  gas(command: string): Promise<{ code: number; said: string }>
  stop(): Promise<void>
}

const ETHER = 10n ** 18n
/** What shells say of a program that was interrupted. */
const BROKEN_OFF = 130
const TSX = import.meta.resolve('tsx')

/** Starts two chains, everybody a station asks without a key, and the station with a database of its own. */
export async function startWorld(): Promise<World> {
  const closing: (() => unknown)[] = []
  const closeAll = async () => {
    for (const close of closing.toReversed()) await close()
  }
  const building = build((close) => void closing.push(close))
  let stopped: Promise<void> | undefined
  // What is half built is built first: then it knows how to end.
  const stop = () => (stopped ??= building.then(closeAll, closeAll))
  breakOffWith(stop)
  try {
    return { ...(await building), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** A day that is broken off leaves nothing behind either. */
function breakOffWith(stop: () => Promise<void>): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    // Whoever listened before would end the process at once.
    process.removeAllListeners(signal).once(signal, () => {
      console.error('\nThe day is broken off.')
      process.exitCode = BROKEN_OFF
      void stop().finally(() => process.exit(BROKEN_OFF))
    })
  }
}

async function build(later: (close: () => unknown) => void): Promise<Omit<World, 'stop'>> {
  const [base, tempo] = await Promise.all([startBase(), startTempo()])
  later(base.stop)
  later(tempo.stop)
  const { settings, site } = await town({ teardown: later }, base.rpcUrl)
  const settler = generatePrivateKey()
  const treasury = addressOf(generatePrivateKey())
  await base.fund(addressOf(settler), ETHER)
  const dataDir = newFolder()
  later(() => rmSync(dataDir, { recursive: true, force: true }))
  const station = await startStation({
    code: ROOT,
    nodeArgs: ['--import', TSX],
    dataDir,
    port: await freePort(),
    env: {
      ...settings,
      RPC_URL_TEMPO: tempo.rpcUrl,
      MPP_CURRENCY: tempo.usdc,
      TREASURY_ADDRESS: treasury,
      SETTLER_PRIVATE_KEY: settler,
    },
  })
  later(station.stop)
  const sql = openDatabase(dataDir)
  later(() => sql.end({ timeout: 1 }))
  const { url, plane } = station
  const ask = (command: string) => gas(command, dataDir)
  return { url, plane, base, tempo, treasury, site, sql, gas: ask }
}

const addressOf = (key: `0x${string}`) =>
  privateKeyToAccount(key).address.toLowerCase() as typeof key

/** The database's user must be able to enter it. */
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gas-station-demo-'))
  chmodSync(folder, 0o755)
  return folder
}

async function gas(command: string, dataDir: string): Promise<{ code: number; said: string }> {
  const child = spawn(process.execPath, ['--import', TSX, join(ROOT, 'app/cli.ts'), command], {
    cwd: dataDir,
    env: { PATH: process.env['PATH'] ?? '', DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  child.stdout.on('data', (text: Buffer) => (said += text.toString()))
  child.stderr.on('data', (text: Buffer) => (said += text.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code: code ?? 1, said }
}
