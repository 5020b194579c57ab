import { setTimeout as sleep } from 'node:timers/promises'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { HexString } from '../chain/onchain-payment-types.ts'
import type { Sql } from '../persistence/postgres/postgres-connection-pool.ts'
import { startEmbeddedPostgres } from '../persistence/postgres/embedded-postgres-server.ts'
import { verifyDatabaseInvariants } from '../persistence/verify/verify-database-invariants.ts'
import { startLocalBase, type LocalChain } from '../test/support/chain/local-chain.ts'
import {
  apiKeyHeader,
  createStationHttpClient,
  expectSuccessReply,
  onboardAgents,
  type StationHttpClient,
} from './station-http-client.ts'
import type { SeededRandom } from './seeded-random.ts'
import { countBrokenPaymentGuarantees, type PaymentAuditResult } from './payment-audit.ts'
import {
  retryX402PurchaseUntilReply,
  isSettlementPending,
  fetchSettlementState,
  readPurchaseAuthorizationFromChain,
  signX402Purchase,
  sendX402PurchaseOnce,
  type X402PurchaseFixtures,
  type X402Purchase,
} from './chaos-proof-x402-purchases.ts'
import { startRpcDelayProxy, type RpcDelayProxy } from './rpc-delay-proxy.ts'
import { readPostmasterPid, spawnStationProcess, type StationProcess } from './station-process.ts'
import { findFreePort } from './free-port.ts'
import { createFundedPayers } from './funded-payer-wallets.ts'

/** Runs payments on a local chain while faults hit the stations, the database and the chain. */

/** Faults during payments. */
const PAYMENT_FAULT_KINDS = [
  'node',
  'postgres',
  'rpc cut',
  'no gas',
  'no blocks',
  'rpc silent',
] as const
type PaymentFaultKind = (typeof PAYMENT_FAULT_KINDS)[number]

/** Settlements that a killed node left unfinished. */
interface InterruptedSettlements {
  readonly claimed: number
  /** Signed and stored, but not sent to the chain. */
  readonly unsent: number
  /** On the chain, but not in the ledger. */
  readonly unseen: number
}

export interface PaymentFaultRound extends PaymentAuditResult {
  readonly trouble: PaymentFaultKind
  readonly afterMs: number
  readonly asked: number
  readonly caught: InterruptedSettlements | null
  /** Waiting for the claim of a dead node to expire. */
  readonly open: number
  readonly restMs: number
  /** Settlements without a final state. */
  readonly unsettled: number
  /** Rules of `gas verify` that are broken. */
  readonly broken: readonly { readonly rule: string; readonly sample: string }[]
  /** Rejections with their reasons. */
  readonly refusals: readonly string[]
}

export interface PaymentFaultRoundsResult {
  readonly rounds: readonly PaymentFaultRound[]
  /** After all open payments have been retried. */
  readonly last: PaymentFaultRound
}

export interface PaymentFaultRoundsOptions {
  readonly code: string
  readonly dataDir: string
  readonly chance: SeededRandom
  readonly rounds: number
  readonly sql: Sql
  readonly onRound: (round: PaymentFaultRound, at: number) => void
}

const NODES = 2
const PAYERS = 8
const AGENTS = 6
/** Some budgets are exhausted within a round. */
const TASK_USDC = [0.02, 0.1, 1]
const BUYERS = 12
const THINK_TIME_MS = { least: 10, most: 80 }
const EARLIEST_MS = 200
const LATEST_MS = 900
const AFTER_FAULT_MS = 300
/** Network delay in each direction. */
const NETWORK_DELAY_MS = 8
const SETTLE_TIMEOUT_MS = 60_000
/** The latest time at which a claim of a dead node expires. */
const CLAIM_EXPIRY_TIMEOUT_MS = 75_000
const SETTLEMENT_POLL_MS = 150
const SETTLER_GAS_WEI = 10n ** 19n
/**
 * Fixed at first, so that claims of dead nodes expire during later faults; then the seed decides.
 */
const FIRST_FAULTS: readonly PaymentFaultKind[] = [
  ...(['node', 'rpc cut', 'node', 'no blocks', 'node'] as const),
  ...(['postgres', 'no gas', 'rpc silent', 'postgres', 'no blocks'] as const),
]

interface PaymentEnvironment extends X402PurchaseFixtures {
  readonly front: RpcDelayProxy
  readonly settler: HexString
  readonly clients: readonly StationHttpClient[]
  readonly stations: StationProcess[]
  readonly start: (at: number) => Promise<StationProcess>
  readonly sql: Sql
  readonly dataDir: string
  readonly purchases: X402Purchase[]
}

/** Runs payments under load on a local chain while faults occur one after the other. */
export async function runPaymentFaultInjectionRounds(
  options: PaymentFaultRoundsOptions,
): Promise<PaymentFaultRoundsResult> {
  const { code, dataDir, chance, sql } = options
  // The database belongs to neither station, so it survives the death of a node.
  const database = await startEmbeddedPostgres({ dataDir, log: () => {} })
  const chain = await startLocalBase()
  const front = await startRpcDelayProxy(chain.rpcUrl, NETWORK_DELAY_MS)
  const settlerKey = generatePrivateKey()
  const treasury = privateKeyToAccount(generatePrivateKey()).address.toLowerCase() as HexString
  const settler = privateKeyToAccount(settlerKey).address
  await chain.fund(settler, SETTLER_GAS_WEI)
  const env = {
    RPC_URL_BASE: front.url,
    TREASURY_ADDRESS: treasury,
    SETTLER_PRIVATE_KEY: settlerKey,
    FREE_TIER_PER_DAY: '0',
    STARTER_CREDITS_USDC: '0',
    LOG_LEVEL: 'silent',
  }
  const ports = [await findFreePort(), await findFreePort()].slice(0, NODES)
  const start = (at: number) =>
    spawnStationProcess({ code, dataDir, port: ports[at] as number, env })
  const stations: StationProcess[] = []
  const clients: StationHttpClient[] = []
  try {
    for (const at of ports.keys()) {
      const station = await start(at)
      stations.push(station)
      clients.push(createStationHttpClient(station.url, 2 * BUYERS))
    }
    const payers = await createFundedPayers(chain, PAYERS)
    const agents = await onboardAgents(clients[0] as StationHttpClient, AGENTS)
    const bare = { chain, treasury, payers, agents, tasks: [], chance }
    const purchases: X402Purchase[] = []
    const ground = { ...bare, front, settler, clients, stations, start, sql, dataDir, purchases }
    return await runRounds(options, ground)
  } finally {
    for (const client of clients) await client.close()
    for (const station of stations) await station.stop()
    front.close()
    await chain.stop()
    await database.stop()
  }
}

async function runRounds(
  { rounds, onRound, chance }: PaymentFaultRoundsOptions,
  ground: PaymentEnvironment,
) {
  const done: PaymentFaultRound[] = []
  for (let at = 1; at <= rounds; at++) {
    const trouble = FIRST_FAULTS[at - 1] ?? chance.pick(PAYMENT_FAULT_KINDS)
    const one = await runPaymentRound({ ...ground, tasks: await startTasks(ground) }, trouble)
    done.push(one)
    onRound(one, at)
  }
  const restMs = await waitUntilSettled(ground, CLAIM_EXPIRY_TIMEOUT_MS, () => false)
  const last = await auditRound(ground, {
    trouble: 'node',
    afterMs: 0,
    asked: 0,
    caught: null,
    restMs,
  })
  return { rounds: done, last }
}

/** Starts one task per agent; a new task ends the old one. */
async function startTasks({ agents, clients, chance }: PaymentEnvironment) {
  const [client] = clients as [StationHttpClient]
  const tasked = agents.slice(0, 3)
  return Promise.all(
    tasked.map(async (agent) => {
      const asked = { name: 'payments', budget_usdc: chance.pick(TASK_USDC) }
      const started = await expectSuccessReply(
        client.send('POST', '/api/task/start', apiKeyHeader(agent), asked),
      )
      return { agent, taskId: String(started['task_id']) }
    }),
  )
}

async function runPaymentRound(
  ground: PaymentEnvironment,
  trouble: PaymentFaultKind,
): Promise<PaymentFaultRound> {
  const { chance, purchases } = ground
  const before = purchases.length
  const stop = startBuyers(ground)
  const afterMs = chance.integer(EARLIEST_MS, LATEST_MS)
  await sleep(afterMs)
  const caught = await PAYMENT_FAULT_INJECTORS[trouble](ground)
  await sleep(AFTER_FAULT_MS)
  await stop()
  const restMs = await waitUntilSettled(ground, SETTLE_TIMEOUT_MS, isClaimOrphaned)
  return auditRound(ground, { trouble, afterMs, asked: purchases.length - before, caught, restMs })
}

/** Starts buyers that pause, sign and pay until they are stopped. */
function startBuyers(ground: PaymentEnvironment): () => Promise<void> {
  let stopping = false
  const { clients, chance, purchases } = ground
  const buy = async (buyer: number): Promise<void> => {
    for (let at = buyer; !stopping; at++) {
      const purchase = await signX402Purchase(ground)
      purchases.push(purchase)
      await retryX402PurchaseUntilReply(clients, purchase, at, () => stopping)
      await sleep(chance.integer(THINK_TIME_MS.least, THINK_TIME_MS.most))
    }
  }
  const running = Promise.all(Array.from({ length: BUYERS }, (_, at) => buy(at)))
  return async () => {
    stopping = true
    await running
  }
}

type PaymentFaultInjector = (ground: PaymentEnvironment) => Promise<InterruptedSettlements | null>

const PAYMENT_FAULT_INJECTORS: Readonly<Record<PaymentFaultKind, PaymentFaultInjector>> = {
  async node(ground) {
    const { stations, start, chain, chance } = ground
    const at = chance.integer(0, stations.length - 1)
    // Without blocks, no sent transaction has a receipt when its sender dies.
    const blocks = chance.integer(0, 1) === 1
    if (!blocks) await chain.client.setAutomine(false)
    await sleep(blocks ? 0 : chance.integer(20, 400))
    await stations[at]?.kill()
    const caught = await countInterruptedSettlements(ground).catch(() => null)
    stations[at] = await start(at)
    if (!blocks) await resumeBlocks(chain)
    return caught
  },
  async postgres({ dataDir }) {
    const pid = readPostmasterPid(dataDir)
    if (pid === null) throw new Error('there is no postgres to kill')
    process.kill(pid, 'SIGKILL')
    return null
  },
  'rpc cut': (ground) => interruptRpc(ground, 'cut'),
  'rpc silent': (ground) => interruptRpc(ground, 'silent'),
  async 'no gas'({ chain, settler, chance }) {
    await chain.client.setBalance({ address: settler, value: 0n })
    await sleep(chance.integer(1_500, 3_000))
    await chain.fund(settler, SETTLER_GAS_WEI)
    return null
  },
  async 'no blocks'({ chain, chance }) {
    await chain.client.setAutomine(false)
    await sleep(chance.integer(1_000, 3_000))
    await resumeBlocks(chain)
    return null
  },
}

async function interruptRpc(
  { front, chance }: PaymentEnvironment,
  mood: 'cut' | 'silent',
): Promise<null> {
  front.setMode(mood)
  await sleep(chance.integer(1_500, 3_000))
  front.setMode('open')
  return null
}

/** Mines a block for pending transactions: enabling automine alone mines nothing. */
async function resumeBlocks(chain: LocalChain): Promise<void> {
  await chain.client.setAutomine(true)
  await chain.mine(1)
}

async function countInterruptedSettlements({
  sql,
  chain,
}: PaymentEnvironment): Promise<InterruptedSettlements> {
  const rows = await sql<{ money: string; hash: string | null }[]>`
    select a.state->'value'->>'money' as money, (select t.hash from settler_tx_settlements c
        join settler_txs t on (t.chain, t.settler, t.nonce) = (c.chain, c.settler, c.nonce)
          and t.replaced_by is null
        where c.purpose = a.id order by c.attempt desc limit 1) as hash
      from actors a where a.kind = 'settlement' and not a.archived`
  const isKnown = async (hash: string): Promise<boolean> =>
    (await chain.client.getTransaction({ hash: hash as HexString }).catch(() => null)) !== null
  const signed = rows.flatMap(({ hash, money }) =>
    hash === null || money === 'settled' ? [] : hash,
  )
  const sent = (await Promise.all(signed.map(isKnown))).filter((known) => known).length
  return {
    claimed: rows.filter(({ money }) => money === 'claimed').length,
    unsent: signed.length - sent,
    unseen: sent,
  }
}

/** The header is locked until the claim of the dead node has expired. */
const isClaimOrphaned = ({ result, state }: X402Purchase): boolean =>
  result === null && state === 'claimed'

/**
 * Polls until no payment changes: accepted payments have settled, the others have a reply or wait
 * for a temporary cause. Resolves to the duration.
 */
async function waitUntilSettled(
  { clients, purchases }: PaymentEnvironment,
  patienceMs: number,
  isOpen: (purchase: X402Purchase) => boolean,
): Promise<number> {
  const startedAt = performance.now()
  const passed = () => performance.now() - startedAt
  const isWaiting = (purchase: X402Purchase): boolean => !isPurchaseFinal(purchase)
  let waiting = purchases.filter(isWaiting)
  for (let turn = 0; waiting.length > 0 && passed() < patienceMs; turn++) {
    await Promise.all(
      waiting.map(async (purchase, at) => {
        const client = clients[(turn + at) % clients.length] as StationHttpClient
        await fetchSettlementState(client, purchase).catch(() => {})
        if (purchase.result === null && !isSettlementPending(purchase))
          await sendX402PurchaseOnce(client, purchase)
      }),
    )
    waiting = waiting.filter(isWaiting)
    if (turn > 0 && waiting.every(isOpen)) break
    await sleep(SETTLEMENT_POLL_MS)
  }
  return passed()
}

/** Has a reply and a final settlement state. */
function isPurchaseFinal({ result, state }: X402Purchase): boolean {
  if (result === null) return false
  if (result === 'answered' || result === 'credited') return state === 'settled' || state === 'lost'
  return state === null || state === 'released' || state === 'settled' || state === 'lost'
}

type RoundObservation = Pick<
  PaymentFaultRound,
  'trouble' | 'afterMs' | 'asked' | 'caught' | 'restMs'
>

/** Compares all payments so far with the ledger and the chain. */
async function auditRound(
  ground: PaymentEnvironment,
  seen: RoundObservation,
): Promise<PaymentFaultRound> {
  const { sql, chain, treasury, purchases } = ground
  for (const purchase of purchases)
    if (!purchase.authorizationUsed) await readPurchaseAuthorizationFromChain(chain, purchase)
  const found = await countBrokenPaymentGuarantees(sql, chain, treasury, purchases)
  const broken = (await verifyDatabaseInvariants(sql)).filter(
    (finding) => finding.broken.length > 0,
  )
  const open = purchases.filter(isClaimOrphaned).length
  return {
    ...seen,
    ...found,
    open,
    unsettled: purchases.filter((one) => !isPurchaseFinal(one)).length - open,
    broken: broken.map(({ rule, broken: [sample] }) => ({ rule, sample: stringifyRow(sample) })),
    refusals: purchases.flatMap(({ refusals }) => refusals),
  }
}

const stringifyRow = (row: unknown): string =>
  JSON.stringify(row, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part))
