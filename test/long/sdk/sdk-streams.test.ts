import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { WebSocket } from 'ws'
import { GasStation, type SocketEvent, type StationSocketOptions } from '../../../sdk/index.ts'
import { startConnectionCuttingProxy } from '../../support/http/connection-cutting-proxy.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '20' })
const proxy = await startConnectionCuttingProxy(t, main.url)
const { gas: direct, agent } = await GasStation.onboard({ url: main.url }, { name: 'streams' })
const alone: typeof fetch = (input, init) =>
  fetch(input, {
    ...init,
    headers: { ...(init?.headers as Record<string, string>), connection: 'close' },
  })
const options = { url: proxy.url, apiKey: agent.api_key, retryDelayMs: 1, fetch: alone }
const gas = new GasStation(options)
const sockets: StationSocketOptions = { WebSocket: WebSocket as never }

async function publish(channel: string, n: number): Promise<string> {
  const signal = { channel, type: 'insight', payload: { n } }
  const { id } = await direct.request<{ id: string }>('POST', '/api/signal/publish', signal)
  return id
}

/** Reads a streamed call; returns its events without progress, of which a slow reader gets fewer. */
async function readCall(by: GasStation, idempotencyKey?: string): Promise<string> {
  const keyed = idempotencyKey === undefined ? {} : { idempotencyKey }
  const events: string[] = []
  for await (const { event } of by.stream('hive_trending', {}, keyed))
    if (event !== 'progress') events.push(event)
  return events.join()
}

t.test('a call whose stream is cut is charged once and has one result', async (t) => {
  t.equal(await readCall(gas), 'start,result')
  const bytes = proxy.lastBytes()
  const spent = async () => (await direct.balance()).balance_usdc
  const before = await spent()
  const cuts = Array.from({ length: 12 }, (_, part) => Math.floor((bytes * part) / 12))
  for (const cut of cuts) {
    proxy.cutNext(cut)
    t.equal(await readCall(gas), 'start,result', `cut at ${cut} of ${bytes}`)
  }
  t.equal(Math.round((before - (await spent())) * 1e6), cuts.length * 5_000, 'charged once each')
  t.equal(proxy.pendingCuts(), 0, 'every answer was cut')
  await main.verify()
})

t.test('the client reads on wherever the answer of a streamed call breaks off', async (t) => {
  const key = 'recorded-answers-of-one-call'
  const recorded: Uint8Array[] = []
  const recording: typeof fetch = async (input, init) => {
    const response = await fetch(input, init)
    recorded.push(new Uint8Array(await response.clone().arrayBuffer()))
    return response
  }
  const recorder = new GasStation({ ...options, url: main.url, fetch: recording })
  for (const _ of ['the call', 'its repetition']) await readCall(recorder, key)
  const [whole = new Uint8Array(), again] = recorded
  const headers = { 'content-type': 'text/event-stream' }
  let different = 0
  for (let cut = 0; cut < whole.length; cut += 1) {
    const answers = [broken(whole.subarray(0, cut)), again]
    const replaying = async () => new Response(answers.shift(), { headers })
    const reader = new GasStation({ ...options, fetch: replaying, retryDelayMs: 0 })
    if ((await readCall(reader, key)) !== 'start,result') different += 1
  }
  t.equal(different, 0, `${whole.length} cuts`)
})

/** A body that ends in an error after these bytes. */
const broken = (bytes: Uint8Array) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes)
    },
    pull(controller) {
      controller.error(new Error('the connection broke'))
    },
  })

t.test('a stream of signals that is cut anywhere has each signal once', async (t) => {
  const channel = 'sdk:cut'
  const since = await publish(channel, 0)
  for (const n of [1, 2, 3]) await publish(channel, n)
  const read = async () => {
    const heard: unknown[] = []
    for await (const { event, data } of gas.signals([channel], { since }))
      if (event === 'signal') {
        heard.push((data['payload'] as { n: number }).n)
        if (heard.length === 3) break
      }
    return heard.join()
  }
  t.equal(await read(), '1,2,3')
  const bytes = proxy.lastBytes()
  let different = 0
  for (let cut = 0; cut < bytes; cut += 17) {
    proxy.cutNext(cut)
    if ((await read()) !== '1,2,3') different += 1
  }
  t.equal(different, 0, `${bytes} cuts`)
})

t.test(
  'a socket that breaks resumes: no event is lost or doubled, no call charged twice',
  async (t) => {
    const before = await direct.balance()
    const socket = await gas.socket(sockets)
    t.teardown(() => socket.close())
    const heard: SocketEvent[] = []
    socket.onEvent((event) => event.kind === 'signal' && heard.push(event))
    await socket.subscribe(['sdk:a', 'sdk:b'])
    for (let n = 0; n < 10; n += 1) {
      // The answers of this call and of these signals are lost with their connection.
      const call = socket.call('hive_trending', {})
      const sent = [publish('sdk:a', n), publish('sdk:b', n)]
      if (n % 2 === 0) proxy.breakAll()
      await Promise.all([call, ...sent])
      t.match(await call, { _meta: { cost_usdc: 0.005 } })
    }
    await socket.publish('sdk:a', 'insight', { n: 10 })
    while (heard.length < 21) await wait(5)
    const numbers = (channel: string) =>
      heard
        .filter((event) => event.channel === channel)
        .map(({ data }) => (data['payload'] as { n: number }).n)
    t.strictSame(numbers('sdk:a'), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    t.strictSame(numbers('sdk:b'), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    const after = await direct.balance()
    t.equal(Math.round((before.balance_usdc - after.balance_usdc) * 1e6), 10 * 5_000 + 21 * 1_000)
    await t.rejects(socket.call('hive_trending', { limit: 0 }), { name: 'InvalidRequest' })
    socket.close()
    await t.rejects(socket.call('hive_trending', {}), { name: 'StreamBroken', code: 'closed' })
    const wrong = new GasStation({ ...options, apiKey: 'gas_wrong' })
    await t.rejects(wrong.socket(sockets), { name: 'Unauthenticated', message: /4401/ })
    await main.verify()
  },
)
