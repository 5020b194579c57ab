import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { createSettlementQueries } from '../../persistence/payments/settlement-queries.ts'
import { startLocalBase, type LocalChain } from '../../test/support/chain/local-chain.ts'
import {
  createStationHttpClient,
  CHAOS_PAID_TOOL_REQUEST_BODY,
  CHAOS_PAID_TOOL_PRICE_USDC,
} from '../../chaos/station-http-client.ts'
import { median } from '../../chaos/quantiles-host-hardware-and-text-tables.ts'
import {
  createProofDataDirectory,
  connectToEmbeddedStationDatabase,
  spawnStationProcess,
} from '../../chaos/station-process.ts'
import { findFreePort } from '../../chaos/free-port.ts'
import type { HttpLoadPlan, HttpLoadResult } from '../http-load-generator.ts'
import {
  createFundedBenchmarkPayers,
  signPaymentHeaders,
  type BenchmarkPaymentTerms,
  type BenchmarkPayerAccounts,
} from '../benchmark-payer-wallets.ts'
import { seedApiKeys, seedAgents } from '../seed-agents.ts'
import {
  runLoadGenerator,
  spawnBenchmarkChildProgram,
  type BenchmarkChildProgram,
} from '../benchmark-child-processes.ts'
import {
  formatMilliseconds,
  createBenchmarkReportRow,
  formatWithThousandsSeparators,
  formatFactor,
  type BenchmarkRow,
  type BenchmarkScale,
} from '../benchmark-result-row.ts'

/** Benchmarks paid calls against the official x402 packages on the same local chain. */

const PATH = '/api/t/hive-trending'
const BODY = { limit: CHAOS_PAID_TOOL_REQUEST_BODY.limit }
const AMOUNT = BigInt(CHAOS_PAID_TOOL_PRICE_USDC * 1e6)
const CONNECTIONS = 32
/** More payments per second than either contestant can serve. */
const MAX_PAYMENTS_PER_SECOND = 400
const ETHER = 10n ** 18n
const TARGET = 1.5

/** One contestant: its address, its payment terms and when it has settled. */
interface PaymentContestant {
  readonly port: number
  readonly bill: BenchmarkPaymentTerms
  /** Resolves when every accepted payment has settled; rejects when one has failed. */
  settled(): Promise<void>
}

interface PaymentsBenchSetup {
  readonly base: LocalChain
  readonly payers: BenchmarkPayerAccounts
  readonly ours: PaymentContestant
  readonly theirs: PaymentContestant
  /** Keys of agents of the station that pay with credits. */
  readonly keys: readonly string[]
}

/** Measures calls paid by signed authorizations for both contestants. */
export async function benchmarkPayments(scale: BenchmarkScale): Promise<BenchmarkRow[]> {
  const closing: (() => unknown)[] = []
  try {
    const ground = await prepare((close) => void closing.push(close))
    return [...(await rateRows(ground, scale)), await neighbourRow(ground, scale)]
  } finally {
    for (const close of closing.reverse()) await close()
  }
}

const AGENTS = 100
/** The options of `npm start`. */
const NODE_ARGS = ['--max-semi-space-size=16']
const addressOf = (key: `0x${string}`) => privateKeyToAccount(key).address.toLowerCase()

async function prepare(later: (close: () => unknown) => void): Promise<PaymentsBenchSetup> {
  const base = await startLocalBase()
  later(base.stop)
  const [ownKey, theirKey, ownTreasury, theirTreasury] = [
    generatePrivateKey(),
    generatePrivateKey(),
    addressOf(generatePrivateKey()),
    addressOf(generatePrivateKey()),
  ]
  await Promise.all([ownKey, theirKey].map((key) => base.fund(addressOf(key), 100n * ETHER)))
  const payers = await createFundedBenchmarkPayers(base)
  const [dataDir, port] = [createProofDataDirectory(), await findFreePort()]
  later(() => rmSync(dataDir, { recursive: true, force: true }))
  const env = {
    STARTER_CREDITS_USDC: '1000000',
    LOG_LEVEL: 'warn',
    RPC_URL_BASE: base.rpcUrl,
    TREASURY_ADDRESS: ownTreasury,
    SETTLER_PRIVATE_KEY: ownKey,
  }
  const station = await spawnStationProcess({ dataDir, port, env, nodeArgs: NODE_ARGS })
  later(station.stop)
  const sql = connectToEmbeddedStationDatabase(dataDir)
  later(() => sql.end({ timeout: 1 }))
  const ours = {
    port,
    bill: { to: ownTreasury, amount: AMOUNT },
    settled: () => stationIsIdle(sql),
  }
  const bytes = await bytesOf(station.url, payers, ours.bill)
  const server = spawnBenchmarkChildProgram(
    'x402-reference-server.ts',
    [base.rpcUrl, theirKey, theirTreasury, String(CHAOS_PAID_TOOL_PRICE_USDC), bytes],
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
  const client = createStationHttpClient(station.url, 1)
  later(() => client.close())
  const keys = await seedApiKeys(dataDir, sql, await seedAgents(client, sql, AGENTS))
  return { base, payers, ours, theirs, keys }
}

/** Length of a response of the station: the baseline returns one of the same length. */
async function bytesOf(
  url: string,
  payers: BenchmarkPayerAccounts,
  bill: BenchmarkPaymentTerms,
): Promise<string> {
  const [header = ''] = await signPaymentHeaders(payers, bill, 1)
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
  const store = createSettlementQueries(sql)
  const until = performance.now() + SETTLE_MS
  for (;;) {
    const { open, lost } = await store.counts()
    if (lost > 0) throw new Error(`${lost} payments of the station are lost`)
    if (open === 0) return
    if (performance.now() > until) throw new Error(`${open} payments of the station do not settle`)
    await pause(LOOK_MS)
  }
}

async function referenceIsIdle(server: BenchmarkChildProgram): Promise<void> {
  const { failed } = JSON.parse(await server.ask('idle')) as { failed: number }
  if (failed > 0) throw new Error(`${failed} payments of the reference did not settle`)
}

type Timing = Pick<HttpLoadPlan, 'warmUpMs' | 'measureMs'>

/** Sends pre-signed payments as fast as the contestant answers; each payment is used once. */
async function saturate(
  { payers }: PaymentsBenchSetup,
  { port, bill }: PaymentContestant,
  timing: Timing,
) {
  const seconds = (timing.warmUpMs + timing.measureMs) / 1_000 + 1
  const keys = await signPaymentHeaders(payers, bill, Math.ceil(seconds * MAX_PAYMENTS_PER_SECOND))
  const plan = {
    port,
    path: PATH,
    body: BODY,
    keys,
    header: 'Payment-Signature',
    once: true,
  } as const
  return () => runLoadGenerator({ ...plan, connections: CONNECTIONS, ...timing })
}

interface ContestantTurn {
  readonly load: HttpLoadResult
  /** Payments per second from the first request to the last settlement. */
  readonly settledRate: number
}

/**
 * One turn of a contestant. Throws unless exactly the accepted payments are on the chain at the
 * end.
 */
async function runContestantTurn(
  ground: PaymentsBenchSetup,
  side: PaymentContestant,
  { warmUpMs, measureMs }: BenchmarkScale,
): Promise<ContestantTurn> {
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

function mediansOf(turns: readonly ContestantTurn[]): Medians {
  const of = (value: (turn: ContestantTurn) => number) => median(turns.map(value))
  return {
    rate: of(({ load }) => load.rate),
    p50: of(({ load }) => load.p50),
    p99: of(({ load }) => load.p99),
    settledRate: of((one) => one.settledRate),
    answers: turns.reduce((sum, { load }) => sum + load.answers, 0),
  }
}

async function rateRows(
  ground: PaymentsBenchSetup,
  scale: BenchmarkScale,
): Promise<BenchmarkRow[]> {
  const [ours, theirs] = [[] as ContestantTurn[], [] as ContestantTurn[]]
  await ground.ours.settled()
  // A few hundred payments do not warm up a program that signs and hashes: the first round is
  // discarded.
  for (let at = 0; at <= scale.rounds; at++) {
    const [own, their] = [
      await runContestantTurn(ground, ground.ours, scale),
      await runContestantTurn(ground, ground.theirs, scale),
    ]
    if (at === 0) continue
    ours.push(own)
    theirs.push(their)
  }
  return rateRowsOf(mediansOf(ours), mediansOf(theirs), scale)
}

function rateRowsOf(ours: Medians, theirs: Medians, { rounds }: BenchmarkScale): BenchmarkRow[] {
  const [ratio, settled] = [ours.rate / theirs.rate, ours.settledRate / theirs.settledRate]
  const n = `${rounds} rounds, ${formatWithThousandsSeparators(ours.answers)} and ${formatWithThousandsSeparators(theirs.answers)} calls`
  const said = ({ rate, p50, p99 }: Medians) =>
    `${formatWithThousandsSeparators(rate)}/s, p50 ${formatMilliseconds(p50)}, p99 ${formatMilliseconds(p99)}`
  return [
    createBenchmarkReportRow({
      what: `calls paid by Payment-Signature, ${CONNECTIONS} connections, 256 payers, settled after the answer, against @x402/core and @x402/evm (bench/baseline-x402-server.ts)`,
      measured: said(ours),
      baseline: said(theirs),
      result: formatFactor(ratio),
      target: `>= ${TARGET}x`,
      met: ratio >= TARGET,
      n,
    }),
    createBenchmarkReportRow({
      what: 'the same to the last settlement on the chain',
      measured: `${formatWithThousandsSeparators(ours.settledRate)}/s`,
      baseline: `${formatWithThousandsSeparators(theirs.settledRate)}/s`,
      result: formatFactor(settled),
      target: '>= 1x',
      met: settled >= 1,
      n,
    }),
  ]
}

const CREDIT_CALLS_PER_SECOND = 100
const LEAD_MS = 1_000
const MAX_P99_MS = 100

/** Latency of agents with credits while the payment rail is saturated. */
async function neighbourRow(
  ground: PaymentsBenchSetup,
  scale: BenchmarkScale,
): Promise<BenchmarkRow> {
  const { warmUpMs, measureMs, rounds } = scale
  const credits = {
    port: ground.ours.port,
    path: '/api/refuel',
    body: CHAOS_PAID_TOOL_REQUEST_BODY,
    keys: ground.keys,
  }
  const paced = { ...credits, connections: CONNECTIONS, rate: CREDIT_CALLS_PER_SECOND, measureMs }
  const [alone, beside] = [[] as HttpLoadResult[], [] as HttpLoadResult[]]
  for (let at = 0; at < rounds; at++) {
    alone.push(await runLoadGenerator({ ...paced, warmUpMs }))
    // The payment load starts before the measurement and ends after it.
    const longer = { warmUpMs: 0, measureMs: warmUpMs + measureMs + 2 * LEAD_MS }
    const run = await saturate(ground, ground.ours, longer)
    const [, calls] = await Promise.all([
      run(),
      runLoadGenerator({ ...paced, warmUpMs: warmUpMs + LEAD_MS }),
    ])
    beside.push(calls)
    await ground.ours.settled()
  }
  const failed = [...alone, ...beside].reduce((sum, result) => sum + result.failed, 0)
  if (failed > 0) throw new Error(`${failed} calls paid with credits failed`)
  const of = (results: HttpLoadResult[], value: 'p50' | 'p99') =>
    median(results.map((result) => result[value]))
  const p99 = of(beside, 'p99')
  return createBenchmarkReportRow({
    what: `${CREDIT_CALLS_PER_SECOND} credit-paid calls/s over ${AGENTS} agents while ${CONNECTIONS} connections pay on the chain without a pause, open loop`,
    measured: `p50 ${formatMilliseconds(of(beside, 'p50'))}, p99 ${formatMilliseconds(p99)}`,
    baseline: `without: p50 ${formatMilliseconds(of(alone, 'p50'))}, p99 ${formatMilliseconds(of(alone, 'p99'))}`,
    result: `p99 ${formatMilliseconds(p99)}`,
    target: `p99 <= ${MAX_P99_MS} ms`,
    met: p99 <= MAX_P99_MS,
    n: `${rounds} rounds, ${formatWithThousandsSeparators(beside.reduce((sum, { answers }) => sum + answers, 0))} calls`,
  })
}
