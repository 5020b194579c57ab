import { setTimeout as sleep } from 'node:timers/promises'
import { NETWORKS } from '../../chain/networks.ts'
import { settlementOf } from '../../payments/commands/payment.ts'
import type { Hex } from '../../chain/payment.ts'
import type { LocalChain } from '../chain/local-chain.ts'
import { as, type Agent, type Answer, type Client } from './agents.ts'
import type { Chance } from './chance.ts'
import { authorize, isUsed, type Authorization, type Payer } from './wallets.ts'

/** A task with a budget that ends before the load does. */
interface Tasked {
  readonly agent: Agent
  readonly taskId: string
}

/** What is bought with: everything a purchase may be made of. */
export interface Market {
  readonly chain: LocalChain
  readonly treasury: Hex
  readonly payers: readonly Payer[]
  readonly agents: readonly Agent[]
  readonly tasks: readonly Tasked[]
  readonly chance: Chance
}

/** `limited`: the budget of its task was used up, so nothing was to be taken for it. */
type End = 'answered' | 'credited' | 'limited' | 'refused'

/** One payment header, and everything that was ever answered to it. */
export interface Purchase {
  readonly kind: 'call' | 'agent' | 'task' | 'topup'
  readonly authorization: Authorization
  readonly settlement: string
  readonly path: string
  readonly body: object
  readonly headers: Readonly<Record<string, string>>
  /** Sent to both stations at once. */
  readonly twice: boolean
  readonly agent: Agent | null
  tries: number
  /** How often the connection was lost before an answer. */
  lost: number
  /** The ids in its 200s: one call has one. */
  readonly ids: Set<string>
  /** Reasons of every 402 and other final refusal. */
  readonly refusals: string[]
  end: End | null
  /** Of the money, as the station tells it. */
  state: string | null
  /** The chain has used the authorization. */
  moved: boolean
}

const CALL = { path: '/api/t/hive-trending', body: { limit: 1 } }
const CALL_MICROS = 5_000n
const TOPUP = { path: '/api/credits/topup', body: { amount_usdc: 1 } }
const TOPUP_MICROS = 1_000_000n
const MIX: readonly Purchase['kind'][] = [
  ...Array<'call'>(5).fill('call'),
  ...Array<'agent'>(2).fill('agent'),
  ...Array<'task'>(2).fill('task'),
  'topup',
]
const PAUSE_MS = 40

/** Signs a payment for something, and says how it will be sent. */
export async function newPurchase(market: Market): Promise<Purchase> {
  const { chain, treasury, payers, agents, tasks, chance } = market
  const kind = chance.pick(MIX)
  const task = chance.pick(tasks)
  const agent = kind === 'call' ? null : kind === 'task' ? task.agent : chance.pick(agents)
  const value = kind === 'topup' ? TOPUP_MICROS : CALL_MICROS
  const twice = chance.whole(1, 4) === 1
  const authorization = await authorize(chance.pick(payers), chain, treasury, value)
  const { payer: from, nonce, header } = authorization
  return {
    kind,
    authorization,
    settlement: settlementOf({ chain: NETWORKS.base.caip2, asset: chain.usdc, from, nonce }),
    ...(kind === 'topup' ? TOPUP : CALL),
    headers: {
      'payment-signature': header,
      ...(agent === null ? {} : as(agent)),
      ...(kind === 'task' ? { 'x-task-id': task.taskId } : {}),
    },
    twice,
    agent,
    tries: 0,
    lost: 0,
    ids: new Set(),
    refusals: [],
    end: null,
    state: null,
    moved: false,
  }
}

/** Sends it once to one station and keeps what is said; null when the connection is lost. */
export async function send(client: Client, purchase: Purchase): Promise<Answer | null> {
  const { path, headers, body } = purchase
  purchase.tries += 1
  const answer = await client.send('POST', path, headers, body).catch(() => null)
  if (answer === null) purchase.lost += 1
  else note(purchase, answer)
  return answer
}

function note(purchase: Purchase, { status, code, body }: Answer): void {
  if (status === 200) {
    const meta = body['_meta'] as { call_id?: string } | undefined
    purchase.ids.add(String(meta?.call_id ?? body['settlement_id']))
    purchase.end = 'answered'
  } else if (code === 'payment_credited') purchase.end ??= 'credited'
  else if (code === 'task_budget_exceeded' && purchase.kind === 'task') purchase.end ??= 'limited'
  else if (status < 500 && code !== 'payment_in_progress') {
    const { reason, detail } = body as { reason?: string; detail?: string }
    purchase.refusals.push(`${status} ${code} (${purchase.kind}): ${reason ?? detail ?? ''}`)
    purchase.end ??= 'refused'
  }
}

/** Repeats the same header until it is answered, by turns at each station; a careful client's way. */
export async function insist(
  clients: readonly Client[],
  purchase: Purchase,
  at: number,
  giveUp: () => boolean,
): Promise<void> {
  const [first, second] = [clients[at % clients.length], clients[(at + 1) % clients.length]]
  if (purchase.twice)
    await Promise.all([send(first as Client, purchase), send(second as Client, purchase)])
  for (let turn = at; purchase.end === null && !giveUp(); turn++) {
    await send(clients[turn % clients.length] as Client, purchase)
    if (purchase.end === null) await sleep(PAUSE_MS)
  }
}

const MOVING: ReadonlySet<string | null> = new Set(['due', 'submitted', 'unknown'])

/** Whether the station still has to do something by itself for its money. */
export const isMoving = ({ state }: Purchase): boolean => MOVING.has(state)

/** Asks what became of its money. */
export async function look(client: Client, purchase: Purchase): Promise<void> {
  const path = `/api/x402/settlements/${purchase.settlement}`
  const { status, body } = await client.send('GET', path, {})
  if (status !== 200 && status !== 404) throw new Error(`${path} answered ${status}`)
  purchase.state = status === 200 ? String(body['state']) : null
}

/** Asks the chain. */
export async function lookOnChain(chain: LocalChain, purchase: Purchase): Promise<void> {
  purchase.moved ||= await isUsed(chain, purchase.authorization)
}
