import { setTimeout as sleep } from 'node:timers/promises'
import { PAYMENT_NETWORKS } from '../chain/payment-networks.ts'
import { toSettlementId } from '../payments/commands/payment-claim-commands.ts'
import type { HexString } from '../chain/onchain-payment-types.ts'
import type { LocalChain } from '../test/support/chain/local-chain.ts'
import {
  apiKeyHeader,
  type AgentIdAndApiKey,
  type StationReply,
  type StationHttpClient,
} from './station-http-client.ts'
import type { SeededRandom } from './seeded-random.ts'
import {
  signPaymentHeader,
  isAuthorizationUsed,
  type SignedPaymentHeader,
  type FundedPayerWallet,
} from './funded-payer-wallets.ts'

/** Purchases with signed x402 payments, retried and checked on the chain. */

/** A task whose budget is exhausted before the load ends. */
interface AgentTask {
  readonly agent: AgentIdAndApiKey
  readonly taskId: string
}

/** The parts that purchases are made from. */
export interface X402PurchaseFixtures {
  readonly chain: LocalChain
  readonly treasury: HexString
  readonly payers: readonly FundedPayerWallet[]
  readonly agents: readonly AgentIdAndApiKey[]
  readonly tasks: readonly AgentTask[]
  readonly chance: SeededRandom
}

/** `limited`: the task budget was exhausted, so the payment must not be taken. */
type PurchaseResult = 'answered' | 'credited' | 'limited' | 'refused'

/** One payment header with all replies to it. */
export interface X402Purchase {
  readonly kind: 'call' | 'agent' | 'task' | 'topup'
  readonly authorization: SignedPaymentHeader
  readonly settlement: string
  readonly path: string
  readonly body: object
  readonly headers: Readonly<Record<string, string>>
  /** Sent to both stations concurrently. */
  readonly sentTwice: boolean
  readonly agent: AgentIdAndApiKey | null
  tries: number
  /** Number of connections lost before a reply. */
  lostConnections: number
  /** Ids in its 200 replies; a call has one id. */
  readonly ids: Set<string>
  /** Reasons of each 402 and other final rejection. */
  readonly refusals: string[]
  result: PurchaseResult | null
  /** The settlement state that the station reports. */
  state: string | null
  /** The authorization is used on the chain. */
  authorizationUsed: boolean
}

const CALL = { path: '/api/t/hive-trending', body: { limit: 1 } }
const CALL_MICROS = 5_000n
const TOPUP = { path: '/api/credits/topup', body: { amount_usdc: 1 } }
const TOPUP_MICROS = 1_000_000n
const PURCHASE_MIX: readonly X402Purchase['kind'][] = [
  ...Array<'call'>(5).fill('call'),
  ...Array<'agent'>(2).fill('agent'),
  ...Array<'task'>(2).fill('task'),
  'topup',
]
const RETRY_PAUSE_MS = 40

/** Signs a payment and chooses how to send it. */
export async function signX402Purchase(market: X402PurchaseFixtures): Promise<X402Purchase> {
  const { chain, treasury, payers, agents, tasks, chance } = market
  const kind = chance.pick(PURCHASE_MIX)
  const task = chance.pick(tasks)
  const agent = kind === 'call' ? null : kind === 'task' ? task.agent : chance.pick(agents)
  const value = kind === 'topup' ? TOPUP_MICROS : CALL_MICROS
  const sentTwice = chance.integer(1, 4) === 1
  const authorization = await signPaymentHeader(chance.pick(payers), chain, treasury, value)
  const { payer: from, nonce, header } = authorization
  return {
    kind,
    authorization,
    settlement: toSettlementId({
      chain: PAYMENT_NETWORKS.base.caip2,
      asset: chain.usdc,
      from,
      nonce,
    }),
    ...(kind === 'topup' ? TOPUP : CALL),
    headers: {
      'payment-signature': header,
      ...(agent === null ? {} : apiKeyHeader(agent)),
      ...(kind === 'task' ? { 'x-task-id': task.taskId } : {}),
    },
    sentTwice,
    agent,
    tries: 0,
    lostConnections: 0,
    ids: new Set(),
    refusals: [],
    result: null,
    state: null,
    authorizationUsed: false,
  }
}

/** Sends it once to one station and records the reply; null when the connection is lost. */
export async function sendX402PurchaseOnce(
  client: StationHttpClient,
  purchase: X402Purchase,
): Promise<StationReply | null> {
  const { path, headers, body } = purchase
  purchase.tries += 1
  const answer = await client.send('POST', path, headers, body).catch(() => null)
  if (answer === null) purchase.lostConnections += 1
  else recordReply(purchase, answer)
  return answer
}

function recordReply(purchase: X402Purchase, { status, code, body }: StationReply): void {
  if (status === 200) {
    const meta = body['_meta'] as { call_id?: string } | undefined
    purchase.ids.add(String(meta?.call_id ?? body['settlement_id']))
    purchase.result = 'answered'
  } else if (code === 'payment_credited') purchase.result ??= 'credited'
  else if (code === 'task_budget_exceeded' && purchase.kind === 'task')
    purchase.result ??= 'limited'
  else if (status < 500 && code !== 'payment_in_progress') {
    const { reason, detail } = body as { reason?: string; detail?: string }
    purchase.refusals.push(`${status} ${code} (${purchase.kind}): ${reason ?? detail ?? ''}`)
    purchase.result ??= 'refused'
  }
}

/** Retries the same header on each station in turn until a reply arrives. */
export async function retryX402PurchaseUntilReply(
  clients: readonly StationHttpClient[],
  purchase: X402Purchase,
  at: number,
  giveUp: () => boolean,
): Promise<void> {
  const [first, second] = [clients[at % clients.length], clients[(at + 1) % clients.length]]
  if (purchase.sentTwice)
    await Promise.all([
      sendX402PurchaseOnce(first as StationHttpClient, purchase),
      sendX402PurchaseOnce(second as StationHttpClient, purchase),
    ])
  for (let turn = at; purchase.result === null && !giveUp(); turn++) {
    await sendX402PurchaseOnce(clients[turn % clients.length] as StationHttpClient, purchase)
    if (purchase.result === null) await sleep(RETRY_PAUSE_MS)
  }
}

const PENDING_STATES: ReadonlySet<string | null> = new Set(['due', 'submitted', 'unknown'])

/** Whether the station still has to settle it. */
export const isSettlementPending = ({ state }: X402Purchase): boolean => PENDING_STATES.has(state)

/** Fetches the state of its settlement. */
export async function fetchSettlementState(
  client: StationHttpClient,
  purchase: X402Purchase,
): Promise<void> {
  const path = `/api/x402/settlements/${purchase.settlement}`
  const { status, body } = await client.send('GET', path, {})
  if (status !== 200 && status !== 404) throw new Error(`${path} answered ${status}`)
  purchase.state = status === 200 ? String(body['state']) : null
}

/** Reads its authorization from the chain. */
export async function readPurchaseAuthorizationFromChain(
  chain: LocalChain,
  purchase: X402Purchase,
): Promise<void> {
  purchase.authorizationUsed ||= await isAuthorizationUsed(chain, purchase.authorization)
}
