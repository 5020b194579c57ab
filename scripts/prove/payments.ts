import { setTimeout as sleep } from 'node:timers/promises'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { Hex } from '../../chain/payment.ts'
import type { Sql } from '../../persistence/postgres/connect.ts'
import { startServer } from '../../persistence/postgres/server.ts'
import { verify } from '../../persistence/verify.ts'
import { startBase, type LocalChain } from '../chain/local-chain.ts'
import { as, clientOf, must, onboard, type Client } from './agents.ts'
import type { Chance } from './chance.ts'
import { audit, type Audit } from './payment-audit.ts'
import {
  insist,
  isMoving,
  look,
  lookOnChain,
  newPurchase,
  send,
  type Market,
  type Purchase,
} from './purchases.ts'
import { rpcFront, type RpcFront } from './rpc-front.ts'
import { freePort, postmasterOf, startStation, type Station } from './station.ts'
import { payersOn } from './wallets.ts'

/** What goes wrong while payments are under way. */
const TROUBLES = ['node', 'postgres', 'rpc cut', 'no gas', 'no blocks', 'rpc silent'] as const
type Trouble = (typeof TROUBLES)[number]

/** What a killed node left half done. */
interface Caught {
  readonly claimed: number
  /** Signed and stored; the chain has never heard of it. */
  readonly unsent: number
  /** The chain has it; the ledger has not. */
  readonly unseen: number
}

export interface PaymentRound extends Audit {
  readonly trouble: Trouble
  readonly afterMs: number
  readonly asked: number
  readonly caught: Caught | null
  /** Waiting for the claim of a dead node to expire. */
  readonly open: number
  readonly restMs: number
  /** Settlements that did not come to rest. */
  readonly restless: number
  /** Rules of `gas verify` that are broken. */
  readonly broken: readonly { readonly rule: string; readonly sample: string }[]
  /** What was refused, and why. */
  readonly refusals: readonly string[]
}

export interface PaymentProof {
  readonly rounds: readonly PaymentRound[]
  /** After everything that was left open has been asked again. */
  readonly last: PaymentRound
}

export interface PaymentOptions {
  readonly code: string
  readonly dataDir: string
  readonly chance: Chance
  readonly rounds: number
  readonly sql: Sql
  readonly told: (round: PaymentRound, at: number) => void
}

const NODES = 2
const PAYERS = 8
const AGENTS = 6
/** Some budgets end within a round. */
const TASK_USDC = [0.02, 0.1, 1]
const BUYERS = 12
const THINKING_MS = { least: 10, most: 80 }
const EARLIEST_MS = 200
const LATEST_MS = 900
const AFTERWARDS_MS = 300
/** A request is under way for so long each way. */
const NETWORK_MS = 8
const REST_MS = 60_000
/** A claim of a dead node is given up after this, at the latest. */
const EXPIRY_MS = 75_000
const LOOK_MS = 150
const GAS = 10n ** 19n
/** The claims of dead nodes expire while other things go wrong; afterwards the seed decides. */
const FIRST: readonly Trouble[] = [
  ...(['node', 'rpc cut', 'node', 'no blocks', 'node'] as const),
  ...(['postgres', 'no gas', 'rpc silent', 'postgres', 'no blocks'] as const),
]

interface Ground extends Market {
  readonly front: RpcFront
  readonly settler: Hex
  readonly clients: readonly Client[]
  readonly stations: Station[]
  readonly start: (at: number) => Promise<Station>
  readonly sql: Sql
  readonly dataDir: string
  readonly purchases: Purchase[]
}

/** Payments on a chain of its own under load, while one thing after the other goes wrong. */
export async function payments(options: PaymentOptions): Promise<PaymentProof> {
  const { code, dataDir, chance, sql } = options
  // The database is nobody's of the two: a node that dies takes nothing with it.
  const database = await startServer({ dataDir, log: () => {} })
  const chain = await startBase()
  const front = await rpcFront(chain.rpcUrl, NETWORK_MS)
  const settlerKey = generatePrivateKey()
  const treasury = privateKeyToAccount(generatePrivateKey()).address.toLowerCase() as Hex
  const settler = privateKeyToAccount(settlerKey).address
  await chain.fund(settler, GAS)
  const env = {
    RPC_URL_BASE: front.url,
    TREASURY_ADDRESS: treasury,
    SETTLER_PRIVATE_KEY: settlerKey,
    FREE_TIER_PER_DAY: '0',
    STARTER_CREDITS_USDC: '0',
    LOG_LEVEL: 'silent',
  }
  const ports = [await freePort(), await freePort()].slice(0, NODES)
  const start = (at: number) => startStation({ code, dataDir, port: ports[at] as number, env })
  const stations: Station[] = []
  const clients: Client[] = []
  try {
    for (const at of ports.keys()) {
      const station = await start(at)
      stations.push(station)
      clients.push(clientOf(station.url, 2 * BUYERS))
    }
    const payers = await payersOn(chain, PAYERS)
    const agents = await onboard(clients[0] as Client, AGENTS)
    const bare = { chain, treasury, payers, agents, tasks: [], chance }
    const purchases: Purchase[] = []
    const ground = { ...bare, front, settler, clients, stations, start, sql, dataDir, purchases }
    return await played(options, ground)
  } finally {
    for (const client of clients) await client.close()
    for (const station of stations) await station.stop()
    front.close()
    await chain.stop()
    await database.stop()
  }
}

async function played({ rounds, told, chance }: PaymentOptions, ground: Ground) {
  const done: PaymentRound[] = []
  for (let at = 1; at <= rounds; at++) {
    const trouble = FIRST[at - 1] ?? chance.pick(TROUBLES)
    const one = await round({ ...ground, tasks: await newTasks(ground) }, trouble)
    done.push(one)
    told(one, at)
  }
  const restMs = await rest(ground, EXPIRY_MS, () => false)
  const last = await judged(ground, { trouble: 'node', afterMs: 0, asked: 0, caught: null, restMs })
  return { rounds: done, last }
}

/** Each agent with one task at a time: a new one ends the old one. */
async function newTasks({ agents, clients, chance }: Ground) {
  const [client] = clients as [Client]
  const tasked = agents.slice(0, 3)
  return Promise.all(
    tasked.map(async (agent) => {
      const asked = { name: 'payments', budget_usdc: chance.pick(TASK_USDC) }
      const started = await must(client.send('POST', '/api/task/start', as(agent), asked))
      return { agent, taskId: String(started['task_id']) }
    }),
  )
}

async function round(ground: Ground, trouble: Trouble): Promise<PaymentRound> {
  const { chance, purchases } = ground
  const before = purchases.length
  const stop = underLoad(ground)
  const afterMs = chance.whole(EARLIEST_MS, LATEST_MS)
  await sleep(afterMs)
  const caught = await STRIKES[trouble](ground)
  await sleep(AFTERWARDS_MS)
  await stop()
  const restMs = await rest(ground, REST_MS, isOrphan)
  return judged(ground, { trouble, afterMs, asked: purchases.length - before, caught, restMs })
}

/** Buyers that think, sign and pay until they are stopped. */
function underLoad(ground: Ground): () => Promise<void> {
  let stopping = false
  const { clients, chance, purchases } = ground
  const buy = async (buyer: number): Promise<void> => {
    for (let at = buyer; !stopping; at++) {
      const purchase = await newPurchase(ground)
      purchases.push(purchase)
      await insist(clients, purchase, at, () => stopping)
      await sleep(chance.whole(THINKING_MS.least, THINKING_MS.most))
    }
  }
  const running = Promise.all(Array.from({ length: BUYERS }, (_, at) => buy(at)))
  return async () => {
    stopping = true
    await running
  }
}

type Strike = (ground: Ground) => Promise<Caught | null>

const STRIKES: Readonly<Record<Trouble, Strike>> = {
  async node(ground) {
    const { stations, start, chain, chance } = ground
    const at = chance.whole(0, stations.length - 1)
    // Without blocks nothing that was sent has a receipt when its sender dies.
    const blocks = chance.whole(0, 1) === 1
    if (!blocks) await chain.client.setAutomine(false)
    await sleep(blocks ? 0 : chance.whole(20, 400))
    await stations[at]?.kill()
    const caught = await census(ground).catch(() => null)
    stations[at] = await start(at)
    if (!blocks) await withBlocks(chain)
    return caught
  },
  async postgres({ dataDir }) {
    const pid = postmasterOf(dataDir)
    if (pid === null) throw new Error('there is no postgres to kill')
    process.kill(pid, 'SIGKILL')
    return null
  },
  'rpc cut': (ground) => without(ground, 'cut'),
  'rpc silent': (ground) => without(ground, 'silent'),
  async 'no gas'({ chain, settler, chance }) {
    await chain.client.setBalance({ address: settler, value: 0n })
    await sleep(chance.whole(1_500, 3_000))
    await chain.fund(settler, GAS)
    return null
  },
  async 'no blocks'({ chain, chance }) {
    await chain.client.setAutomine(false)
    await sleep(chance.whole(1_000, 3_000))
    await withBlocks(chain)
    return null
  },
}

async function without({ front, chance }: Ground, mood: 'cut' | 'silent'): Promise<null> {
  front.set(mood)
  await sleep(chance.whole(1_500, 3_000))
  front.set('open')
  return null
}

/** What waited for a block gets one: turning blocks on again mines nothing by itself. */
async function withBlocks(chain: LocalChain): Promise<void> {
  await chain.client.setAutomine(true)
  await chain.mine(1)
}

async function census({ sql, chain }: Ground): Promise<Caught> {
  const rows = await sql<{ money: string; hash: string | null }[]>`
    select a.state->'value'->>'money' as money, (select t.hash from settler_carries c
        join settler_txs t on (t.chain, t.settler, t.nonce) = (c.chain, c.settler, c.nonce)
          and t.replaced_by is null
        where c.purpose = a.id order by c.attempt desc limit 1) as hash
      from actors a where a.kind = 'settlement' and not a.at_rest`
  const isKnown = async (hash: string): Promise<boolean> =>
    (await chain.client.getTransaction({ hash: hash as Hex }).catch(() => null)) !== null
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

/** Nobody may use it until the claim of the node that died with it has expired. */
const isOrphan = ({ end, state }: Purchase): boolean => end === null && state === 'claimed'

/**
 * Asks until nothing moves any more: payments that were answered have settled, the others have an
 * answer or are open for a reason that passes. Resolves to how long it took.
 */
async function rest(
  { clients, purchases }: Ground,
  patienceMs: number,
  isOpen: (purchase: Purchase) => boolean,
): Promise<number> {
  const startedAt = performance.now()
  const passed = () => performance.now() - startedAt
  const isWaiting = (purchase: Purchase): boolean => !isAtRest(purchase)
  let waiting = purchases.filter(isWaiting)
  for (let turn = 0; waiting.length > 0 && passed() < patienceMs; turn++) {
    await Promise.all(
      waiting.map(async (purchase, at) => {
        const client = clients[(turn + at) % clients.length] as Client
        await look(client, purchase).catch(() => {})
        if (purchase.end === null && !isMoving(purchase)) await send(client, purchase)
      }),
    )
    waiting = waiting.filter(isWaiting)
    if (turn > 0 && waiting.every(isOpen)) break
    await sleep(LOOK_MS)
  }
  return passed()
}

/** It has an answer, and its money is where it will stay. */
function isAtRest({ end, state }: Purchase): boolean {
  if (end === null) return false
  if (end === 'answered' || end === 'credited') return state === 'settled' || state === 'lost'
  return state === null || state === 'released' || state === 'settled' || state === 'lost'
}

type Seen = Pick<PaymentRound, 'trouble' | 'afterMs' | 'asked' | 'caught' | 'restMs'>

/** Everything so far against the books and the chain. */
async function judged(ground: Ground, seen: Seen): Promise<PaymentRound> {
  const { sql, chain, treasury, purchases } = ground
  for (const purchase of purchases) if (!purchase.moved) await lookOnChain(chain, purchase)
  const found = await audit(sql, chain, treasury, purchases)
  const broken = (await verify(sql)).filter((finding) => finding.broken.length > 0)
  const open = purchases.filter(isOrphan).length
  return {
    ...seen,
    ...found,
    open,
    restless: purchases.filter((one) => !isAtRest(one)).length - open,
    broken: broken.map(({ rule, broken: [sample] }) => ({ rule, sample: spelled(sample) })),
    refusals: purchases.flatMap(({ refusals }) => refusals),
  }
}

const spelled = (row: unknown): string =>
  JSON.stringify(row, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part))
