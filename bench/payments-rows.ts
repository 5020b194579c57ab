import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { Sql } from '../persistence/postgres/connect.ts'
import { settlementStore } from '../persistence/settlements.ts'
import { startBase, type LocalChain } from '../scripts/chain/local-chain.ts'
import { clientOf, PAID, PRICE } from '../scripts/prove/agents.ts'
import { median } from '../scripts/prove/figures.ts'
import { freePort, newDataDir, openDatabase, startStation } from '../scripts/prove/station.ts'
import type { LoadPlan, LoadResult } from './load.ts'
import { makePayers, signPayments, type Bill, type Payers } from './payers.ts'
import { giveKeys, populate } from './population.ts'
import { drive, helper, type Helper } from './processes.ts'
import { ms, row, thousands, times, type Row, type Scale } from './rows.ts'

const PATH = '/api/t/hive-trending'
const BODY = { limit: PAID.limit }
const AMOUNT = BigInt(PRICE * 1e6)
const CONNECTIONS = 32
/** More payments than either side can answer in a second. */
const MOST_PER_SECOND = 400
const ETHER = 10n ** 18n
const TARGET = 1.5

/** One side of the contest: where it listens, what its payments look like, when it has settled. */
interface Side {
  readonly port: number
  readonly bill: Bill
  /** Resolves when every payment that was answered has settled; rejects when one has not. */
  settled(): Promise<void>
}

interface Ground {
  readonly base: LocalChain
  readonly payers: Payers
  readonly ours: Side
  readonly theirs: Side
  /** Keys of agents of the station that pay with credits. */
  readonly keys: readonly string[]
}

/** Calls paid by signed authorizations, beside the official packages on the same local chain. */
export async function paymentRows(scale: Scale): Promise<Row[]> {
  const closing: (() => unknown)[] = []
  try {
    const ground = await prepare((close) => void closing.push(close))
    return [...(await rateRows(ground, scale)), await neighbourRow(ground, scale)]
  } finally {
    for (const close of closing.reverse()) await close()
  }
}

const AGENTS = 100
/** As `npm start` has them. */
const NODE_ARGS = ['--max-semi-space-size=64']
const addressOf = (key: `0x${string}`) => privateKeyToAccount(key).address.toLowerCase()

async function prepare(later: (close: () => unknown) => void): Promise<Ground> {
  const base = await startBase()
  later(base.stop)
  const [ownKey, theirKey, ownTreasury, theirTreasury] = [
    generatePrivateKey(),
    generatePrivateKey(),
    addressOf(generatePrivateKey()),
    addressOf(generatePrivateKey()),
  ]
  await Promise.all([ownKey, theirKey].map((key) => base.fund(addressOf(key), 100n * ETHER)))
  const payers = await makePayers(base)
  const [dataDir, port] = [newDataDir(), await freePort()]
  later(() => rmSync(dataDir, { recursive: true, force: true }))
  const env = {
    STARTER_CREDITS_USDC: '1000000',
    LOG_LEVEL: 'warn',
    RPC_URL_BASE: base.rpcUrl,
    TREASURY_ADDRESS: ownTreasury,
    SETTLER_PRIVATE_KEY: ownKey,
  }
  const station = await startStation({ dataDir, port, env, nodeArgs: NODE_ARGS })
  later(station.stop)
  const sql = openDatabase(dataDir)
  later(() => sql.end({ timeout: 1 }))
  const ours = {
    port,
    bill: { to: ownTreasury, amount: AMOUNT },
    settled: () => stationIsIdle(sql),
  }
  const bytes = await bytesOf(station.url, payers, ours.bill)
  const server = helper(
    'reference.ts',
    [base.rpcUrl, theirKey, theirTreasury, String(PRICE), bytes],
    NODE_ARGS,
  )
  later(server.stop)
  const { port: theirPort, accepted } = JSON.parse(await server.ask()) as {
    port: number
    accepted: object
  }
  const theirs = {
    port: theirPort,
    bill: { to: theirTreasury, amount: AMOUNT, accepted },
    settled: () => referenceIsIdle(server),
  }
  const client = clientOf(station.url, 1)
  later(() => client.close())
  const keys = await giveKeys(dataDir, sql, await populate(client, sql, AGENTS))
  return { base, payers, ours, theirs, keys }
}

/** How long an answer of the station is: the other side gives one of the same length. */
async function bytesOf(url: string, payers: Payers, bill: Bill): Promise<string> {
  const [header = ''] = await signPayments(payers, bill, 1)
  const headers = { 'content-type': 'application/json', 'payment-signature': header }
  const response = await fetch(`${url}${PATH}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(BODY),
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`a payment was refused: ${response.status} ${text}`)
  return String(Buffer.byteLength(text))
}

const LOOK_MS = 100
const SETTLE_MS = 120_000

async function stationIsIdle(sql: Sql): Promise<void> {
  const store = settlementStore(sql)
  const until = performance.now() + SETTLE_MS
  for (;;) {
    const { open, lost } = await store.counts()
    if (lost > 0) throw new Error(`${lost} payments of the station are lost`)
    if (open === 0) return
    if (performance.now() > until) throw new Error(`${open} payments of the station do not settle`)
    await pause(LOOK_MS)
  }
}

async function referenceIsIdle(server: Helper): Promise<void> {
  const { failed } = JSON.parse(await server.ask('idle')) as { failed: number }
  if (failed > 0) throw new Error(`${failed} payments of the reference did not settle`)
}

type Timing = Pick<LoadPlan, 'warmUpMs' | 'measureMs'>

/** Pays as fast as a side answers; signed before, and each payment is used once. */
async function saturate({ payers }: Ground, { port, bill }: Side, timing: Timing) {
  const seconds = (timing.warmUpMs + timing.measureMs) / 1_000 + 1
  const keys = await signPayments(payers, bill, Math.ceil(seconds * MOST_PER_SECOND))
  const plan = {
    port,
    path: PATH,
    body: BODY,
    keys,
    header: 'Payment-Signature',
    once: true,
  } as const
  return () => drive({ ...plan, connections: CONNECTIONS, ...timing })
}

interface Turn {
  readonly load: LoadResult
  /** Payments a second from the first request to the last settlement. */
  readonly settledRate: number
}

/** One side's turn: all that was answered has to be on the chain at the end, not more, not less. */
async function turn(ground: Ground, side: Side, { warmUpMs, measureMs }: Scale): Promise<Turn> {
  const run = await saturate(ground, side, { warmUpMs, measureMs })
  const before = await ground.base.balanceOf(side.bill.to)
  const load = await run()
  const answeredAt = performance.now()
  if (load.failed > 0) throw new Error(`${load.failed} of ${load.answers} payments failed`)
  await side.settled()
  const afterMs = performance.now() - answeredAt
  const arrived = (await ground.base.balanceOf(side.bill.to)) - before
  const { good, ms: answerMs } = load.all
  if (arrived !== BigInt(good) * AMOUNT)
    throw new Error(`${good} payments were answered, ${arrived / AMOUNT} are on the chain`)
  return { load, settledRate: (good / (answerMs + afterMs)) * 1_000 }
}

interface Medians {
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly settledRate: number
  readonly answers: number
}

function mediansOf(turns: readonly Turn[]): Medians {
  const of = (value: (turn: Turn) => number) => median(turns.map(value))
  return {
    rate: of(({ load }) => load.rate),
    p50: of(({ load }) => load.p50),
    p99: of(({ load }) => load.p99),
    settledRate: of((one) => one.settledRate),
    answers: turns.reduce((sum, { load }) => sum + load.answers, 0),
  }
}

async function rateRows(ground: Ground, scale: Scale): Promise<Row[]> {
  const [ours, theirs] = [[] as Turn[], [] as Turn[]]
  await ground.ours.settled()
  // A few hundred payments do not warm a program up that signs and hashes: the first round is lost.
  for (let at = 0; at <= scale.rounds; at++) {
    const [own, their] = [
      await turn(ground, ground.ours, scale),
      await turn(ground, ground.theirs, scale),
    ]
    if (at === 0) continue
    ours.push(own)
    theirs.push(their)
  }
  return rateRowsOf(mediansOf(ours), mediansOf(theirs), scale)
}

function rateRowsOf(ours: Medians, theirs: Medians, { rounds }: Scale): Row[] {
  const [ratio, settled] = [ours.rate / theirs.rate, ours.settledRate / theirs.settledRate]
  const n = `${rounds} rounds, ${thousands(ours.answers)} and ${thousands(theirs.answers)} calls`
  const said = ({ rate, p50, p99 }: Medians) =>
    `${thousands(rate)}/s, p50 ${ms(p50)}, p99 ${ms(p99)}`
  return [
    row({
      what: `calls paid by Payment-Signature, ${CONNECTIONS} connections, 256 payers, settled after the answer, against @x402/core and @x402/evm (bench/reference.ts)`,
      measured: said(ours),
      baseline: said(theirs),
      result: times(ratio),
      target: `>= ${TARGET}x`,
      met: ratio >= TARGET,
      n,
    }),
    row({
      what: 'the same to the last settlement on the chain',
      measured: `${thousands(ours.settledRate)}/s`,
      baseline: `${thousands(theirs.settledRate)}/s`,
      result: times(settled),
      target: '>= 1x',
      met: settled >= 1,
      n,
    }),
  ]
}

const PACE = 100
const LEAD_MS = 1_000
const MOST_P99_MS = 100

/** What agents with credits notice of a rail that is busy to its limit. */
async function neighbourRow(ground: Ground, scale: Scale): Promise<Row> {
  const { warmUpMs, measureMs, rounds } = scale
  const credits = { port: ground.ours.port, path: '/api/refuel', body: PAID, keys: ground.keys }
  const paced = { ...credits, connections: CONNECTIONS, rate: PACE, measureMs }
  const [alone, beside] = [[] as LoadResult[], [] as LoadResult[]]
  for (let at = 0; at < rounds; at++) {
    alone.push(await drive({ ...paced, warmUpMs }))
    // It starts before the measurement and ends after it.
    const longer = { warmUpMs: 0, measureMs: warmUpMs + measureMs + 2 * LEAD_MS }
    const run = await saturate(ground, ground.ours, longer)
    const [, calls] = await Promise.all([run(), drive({ ...paced, warmUpMs: warmUpMs + LEAD_MS })])
    beside.push(calls)
    await ground.ours.settled()
  }
  const failed = [...alone, ...beside].reduce((sum, result) => sum + result.failed, 0)
  if (failed > 0) throw new Error(`${failed} calls paid with credits failed`)
  const of = (results: LoadResult[], value: 'p50' | 'p99') =>
    median(results.map((result) => result[value]))
  const p99 = of(beside, 'p99')
  return row({
    what: `${PACE} credit-paid calls/s over ${AGENTS} agents while ${CONNECTIONS} connections pay on the chain without a pause, open loop`,
    measured: `p50 ${ms(of(beside, 'p50'))}, p99 ${ms(p99)}`,
    baseline: `without: p50 ${ms(of(alone, 'p50'))}, p99 ${ms(of(alone, 'p99'))}`,
    result: `p99 ${ms(p99)}`,
    target: `p99 <= ${MOST_P99_MS} ms`,
    met: p99 <= MOST_P99_MS,
    n: `${rounds} rounds, ${thousands(beside.reduce((sum, { answers }) => sum + answers, 0))} calls`,
  })
}
