import {
  startTestWebhookReceiver,
  type TestWebhookReceiver,
} from '../../chaos/accepting-webhook-receiver.ts'
import {
  expectSuccessReply,
  CHAOS_PAID_TOOL_REQUEST_BODY,
  CHAOS_PAID_TOOL_PRICE_USDC,
  type StationHttpClient,
} from '../../chaos/station-http-client.ts'
import { signPaymentHeaders, type BenchmarkPayerAccounts } from '../benchmark-payer-wallets.ts'
import {
  connectMinimalWebSocket,
  type BenchmarkWebSocketConnection,
} from '../minimal-websocket-client.ts'
import type { SoakWork } from './soak-load.ts'

/** The kinds of work of the mixed load. */

export interface SoakSetup {
  readonly url: string
  readonly client: StationHttpClient
  /** Keys of agents with credits. */
  readonly keys: readonly string[]
  readonly receiver: TestWebhookReceiver
  readonly payers: BenchmarkPayerAccounts
  readonly treasury: string
}

const [WEBHOOK_AGENTS, SCHEDULE_AGENTS, BACKPACK_AGENTS, SOCKET_AGENTS] = [5, 10, 10, 20]
const SCHEDULES_PER_AGENT = 10
const TOPICS = ['orchard', 'harbour', 'granite', 'meadow', 'copper', 'lantern', 'willow', 'marble']
const PIPELINE = { calls: Array.from({ length: 10 }, () => CHAOS_PAID_TOOL_REQUEST_BODY) }
const ATOMIC_PRICE = BigInt(CHAOS_PAID_TOOL_PRICE_USDC * 1e6)

export const startSoakReceiver = startTestWebhookReceiver

/** Creates Backpacks, schedules, webhooks and sockets; returns the work and a function that ends it. */
export async function prepareSoakWorks(
  setup: SoakSetup,
): Promise<{ works: SoakWork[]; close: () => void }> {
  const { client, keys } = setup
  const post = (key: string, path: string, body: object) =>
    expectSuccessReply(client.send('POST', path, { 'x-api-key': key }, body))
  const [hot = '', ...spread] = keys
  let taken = 0
  const take = (count: number) => spread.slice(taken, (taken += count))
  const hooked = take(WEBHOOK_AGENTS)
  for (const key of hooked)
    await post(key, '/api/webhook/register', { url: setup.receiver.url, events: ['all'] })
  await createSchedules(post, take(SCHEDULE_AGENTS))
  const bound = await createBoundKeys(post, take(BACKPACK_AGENTS))
  const sockets = await openSockets(setup.url, take(SOCKET_AGENTS))
  const plain = (of: readonly string[]) => (count: number) =>
    post(pick(of, count), '/api/refuel', CHAOS_PAID_TOOL_REQUEST_BODY)
  const works: SoakWork[] = [
    { name: 'credits, one hot agent', perSecond: 20, run: plain([hot]) },
    { name: 'credits, spread', perSecond: 40, run: plain(spread) },
    {
      name: 'pipelines of 10',
      perSecond: 1,
      run: (count) => post(pick(spread, count), '/api/pipeline', PIPELINE),
    },
    {
      name: 'event streams',
      perSecond: 5,
      run: (count) => post(pick(spread, count), '/api/refuel/stream', CHAOS_PAID_TOOL_REQUEST_BODY),
    },
    { name: 'WebSocket refuels', perSecond: 10, run: (count) => pick(sockets, count).call() },
    {
      name: 'Hive writes',
      perSecond: 3,
      run: (count) => post(pick(spread, count), ...hiveWrite(count)),
    },
    {
      name: 'Hive reads',
      perSecond: 6,
      run: (count) => post(pick(spread, count), ...hiveRead(count)),
    },
    { name: 'Backpack calls', perSecond: 10, run: plain(bound) },
    { name: 'calls with webhooks', perSecond: 5, run: plain(hooked) },
    { name: 'x402 without a key', perSecond: 1, run: (count) => payByX402(setup, count) },
  ]
  return { works, close: () => sockets.forEach((socket) => socket.end()) }
}

type Post = (key: string, path: string, body: object) => Promise<Record<string, unknown>>

const pick = <One>(of: readonly One[], count: number): One => of[count % of.length] as One

async function createSchedules(post: Post, keys: readonly string[]): Promise<void> {
  const { tool, ...params } = CHAOS_PAID_TOOL_REQUEST_BODY
  for (const key of keys)
    for (let made = 0; made < SCHEDULES_PER_AGENT; made++)
      await post(key, '/api/task/schedule', { interval: '5m', tool, params })
}

async function createBoundKeys(post: Post, keys: readonly string[]): Promise<string[]> {
  const bound: string[] = []
  for (const key of keys) {
    const fuse = { per_day_usdc: 100_000 }
    const made = await post(key, '/api/backpack/create', { agent_name: 'soak', fuse })
    const body = { backpack_id: made['backpack_id'] }
    bound.push(String((await post(key, '/api/keys', body))['api_key']))
  }
  return bound
}

const topicOf = (count: number): string =>
  `${pick(TOPICS, count)} ${pick(TOPICS, Math.floor(count / TOPICS.length))}`

const hiveWrite = (count: number): [string, object] => [
  '/api/refuel',
  {
    tool: 'hive_write',
    content: `Observation ${count} of the ${topicOf(count)}: value ${(count * 7_919) % 10_007} was measured and confirmed.`,
    namespace: 'soak',
  },
]

const hiveRead = (count: number): [string, object] => [
  '/api/refuel',
  { tool: 'hive_read', query: topicOf(count), limit: 5 },
]

/** Buys a call without a key by a signed authorization. */
async function payByX402({ client, payers, treasury }: SoakSetup, count: number): Promise<unknown> {
  const bill = { to: treasury, amount: ATOMIC_PRICE }
  const [header = ''] = await signPaymentHeaders([pick(payers, count)], bill, 1)
  const { limit } = CHAOS_PAID_TOOL_REQUEST_BODY
  return expectSuccessReply(
    client.send('POST', '/api/t/hive-trending', { 'payment-signature': header }, { limit }),
  )
}

interface CallingSocket {
  call(): Promise<void>
  end(): void
}

const openSockets = (url: string, keys: readonly string[]): Promise<CallingSocket[]> =>
  Promise.all(keys.map((key) => openCallingSocket(`${url}/api/ws`, key)))

async function openCallingSocket(url: string, key: string): Promise<CallingSocket> {
  const waiting = new Map<string, { done: () => void; fail: (error: Error) => void }>()
  let calls = 0
  const fail = (error: Error) => waiting.forEach((one) => one.fail(error))
  const hear = (payload: Buffer): void => {
    const frame = JSON.parse(payload.toString()) as { ref?: string; ok?: boolean }
    const one = waiting.get(frame.ref ?? '')
    waiting.delete(frame.ref ?? '')
    if (frame.ok === true) one?.done()
    else one?.fail(new Error(payload.toString()))
  }
  const socket: BenchmarkWebSocketConnection = await connectMinimalWebSocket({
    ...{ url, protocol: 'gas.v1', headers: { 'x-api-key': key }, hear, fail },
  })
  return {
    call: () =>
      new Promise((done, reject) => {
        calls += 1
        const ref = String(calls)
        waiting.set(ref, { done, fail: reject })
        socket.send(JSON.stringify({ type: 'refuel', ref, ...CHAOS_PAID_TOOL_REQUEST_BODY }))
      }),
    end: () => socket.end(),
  }
}
