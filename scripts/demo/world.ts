import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { startBase, startTempo, type LocalChain } from '../chain/local-chain.ts'
import { freePort, openDatabase, ROOT, startStation } from '../prove/station.ts'
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
  readonly sql: Sql
  /** Runs a `gas` command beside the station. */
  gas(command: string): Promise<{ code: number; said: string }>
  stop(): Promise<void>
}

const ETHER = 10n ** 18n
const TSX = import.meta.resolve('tsx')

/** Starts two chains, a source of prices, and the station with a database of its own. */
export async function startWorld(): Promise<World> {
  const closing: (() => unknown)[] = []
  const stop = async () => {
    for (const close of closing.reverse()) await close()
  }
  try {
    return { ...(await build((close) => void closing.push(close))), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function build(later: (close: () => unknown) => void): Promise<Omit<World, 'stop'>> {
  const [base, tempo, prices] = await Promise.all([startBase(), startTempo(), startPrices()])
  later(base.stop)
  later(tempo.stop)
  later(prices.stop)
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
      COINGECKO_BASE: prices.url,
      RPC_URL_BASE: base.rpcUrl,
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
  return { url, plane, base, tempo, treasury, sql, gas: (command) => gas(command, dataDir) }
}

const addressOf = (key: `0x${string}`) =>
  privateKeyToAccount(key).address.toLowerCase() as typeof key

/** The database's user must be able to enter it. */
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gas-station-demo-'))
  chmodSync(folder, 0o755)
  return folder
}

/** What a source of prices answers, in the form of CoinGecko. */
const USD: Readonly<Record<string, number>> = { bitcoin: 90_000, ethereum: 3_000, 'usd-coin': 1 }

async function startPrices(): Promise<{ url: string; stop: () => void }> {
  const server = createServer(({ url = '' }, response) => {
    const ids = new URL(url, 'http://localhost').searchParams.get('ids') ?? ''
    const known = ids.split(',').flatMap((id) => {
      const usd = USD[id]
      return usd === undefined
        ? []
        : [[id, { usd, usd_24h_change: 1.5, usd_market_cap: usd * 1e7 }]]
    })
    response
      .setHeader('content-type', 'application/json')
      .end(JSON.stringify(Object.fromEntries(known)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const stop = () => {
    server.close()
    server.closeAllConnections()
  }
  return { url: `http://127.0.0.1:${port}`, stop }
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
