import { setTimeout as sleep } from 'node:timers/promises'
import { PAYMENT_NETWORKS } from '../chain/payment-networks.ts'
import { toSettlementId } from '../payments/commands/payment.ts'
import type { HexString } from '../chain/payment.ts'
import type { LocalChain } from '../test/support/chain/local-chain.ts'
import {
  apiKeyHeader,
  type ApiAgent,
  type StationReply,
  type StationClient,
} from './station-client.ts'
import type { SeededRandom } from './seeded-random.ts'
import {
  signPaymentHeader,
  isAuthorizationUsed,
  type SignedPaymentHeader,
  type PayerAccount,
} from './payer-wallets.ts'

/** A task with a budget that ends before the load does. */
interface AgentTask {
  readonly agent: ApiAgent
  readonly taskId: string
}

/** What is bought with: everything a purchase may be made of. */
export interface PurchaseContext {
  readonly chain: LocalChain
  readonly treasury: HexString
  readonly payers: readonly PayerAccount[]
  readonly agents: readonly ApiAgent[]
  readonly tasks: readonly AgentTask[]
  readonly chance: SeededRandom
}

/** `limited`: the budget of its task was used up, so nothing was to be taken for it. */
type PurchaseResult = 'answered' | 'credited' | 'limited' | 'refused'

/** One payment header, and everything that was ever answered to it. */
export interface X402Purchase {
  readonly kind: 'call' | 'agent' | 'task' | 'topup'
  readonly authorization: SignedPaymentHeader
  readonly settlement: string
  readonly path: string
  readonly body: object
  readonly headers: Readonly<Record<string, string>>
  /** Sent to both stations at once. */
  readonly sentTwice: boolean
  readonly agent: ApiAgent | null
  tries: number
  /** How often the connection was lost before an answer. */
  lostConnections: number
  /** The ids in its 200s: one call has one. */
  readonly ids: Set<string>
  /** Reasons of every 402 and other final refusal. */
  readonly refusals: string[]
  result: PurchaseResult | null
  /** Of the money, as the station tells it. */
  state: string | null
  /** The chain has used the authorization. */
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

/** Signs a payment for something, and says how it will be sent. */
export async function signPurchase(market: PurchaseContext): Promise<X402Purchase> {
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

/** Sends it once to one station and keeps what is said; null when the connection is lost. */
export async function sendPurchase(
  client: StationClient,
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

/** Repeats the same header until it is answered, by turns at each station; a careful client's way. */
export async function retryPurchase(
  clients: readonly StationClient[],
  purchase: X402Purchase,
  at: number,
  giveUp: () => boolean,
): Promise<void> {
  const [first, second] = [clients[at % clients.length], clients[(at + 1) % clients.length]]
  if (purchase.sentTwice)
    await Promise.all([
      sendPurchase(first as StationClient, purchase),
      sendPurchase(second as StationClient, purchase),
    ])
  for (let turn = at; purchase.result === null && !giveUp(); turn++) {
    await sendPurchase(clients[turn % clients.length] as StationClient, purchase)
    if (purchase.result === null) await sleep(RETRY_PAUSE_MS)
  }
}

const PENDING_STATES: ReadonlySet<string | null> = new Set(['due', 'submitted', 'unknown'])

/** Whether the station still has to do something by itself for its money. */
export const isSettlementPending = ({ state }: X402Purchase): boolean => PENDING_STATES.has(state)

/** Asks what became of its money. */
export async function fetchSettlementState(
  client: StationClient,
  purchase: X402Purchase,
): Promise<void> {
  const path = `/api/x402/settlements/${purchase.settlement}`
  const { status, body } = await client.send('GET', path, {})
  if (status !== 200 && status !== 404) throw new Error(`${path} answered ${status}`)
  purchase.state = status === 200 ? String(body['state']) : null
}

/** Asks the chain. */
export async function checkPurchaseOnChain(
  chain: LocalChain,
  purchase: X402Purchase,
): Promise<void> {
  purchase.authorizationUsed ||= await isAuthorizationUsed(chain, purchase.authorization)
}
