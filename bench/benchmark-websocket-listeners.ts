import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import {
  connectMinimalWebSocket,
  type BenchmarkWebSocketConnection,
} from './minimal-websocket-client.ts'

/** Opens one WebSocket per key in a separate process; each counts the signals of a channel. */

const [, program = '', file] = process.argv

export interface WebSocketListenersPlan {
  readonly url: string
  readonly channel: string
  readonly keys: readonly string[]
}

export interface WebSocketListenerBenchmarkReport {
  /** Frames of all sockets. */
  readonly frames: number
  /** Sockets that did not receive every signal once and in order. */
  readonly wrong: number
  /** Milliseconds from the publisher's request to the frame. */
  readonly p50: number
  readonly p99: number
  /** CPU microseconds of this process. */
  readonly cpu: number
  /** Signals that a disconnected client missed, and those it received after reconnecting. */
  readonly missed: number
  readonly replayed: number
}

const BUCKETS_A_MS = 10
const MAX_DELAY_MS = 2_000
/** Per run. */
const MAX_SIGNALS = 32_768
const waits = new Uint32Array(MAX_DELAY_MS * BUCKETS_A_MS)

interface Listener {
  socket: BenchmarkWebSocketConnection | null
  /** Received signals by number: a `Set` would pause now and then to grow its table. */
  readonly heard: Uint8Array
  /** Number of received signals. */
  count: number
  /** Id of the last signal; each id must be greater than the one before. */
  id: number
  wrong: boolean
}

const EVENT = Buffer.from('{"type":"event"')
const READY = Buffer.from('{"type":"ready"')
const ACK = Buffer.from('{"type":"ack"')
/** A field name and its position in the previous message. */
const named = (text: string) => ({ name: Buffer.from(text), at: 0 })
const [NUMBER, ID, SENT] = [named('"n":'), named('"id":"'), named('"sent":')]

/** Comparing a few bytes in JavaScript is faster than a native call. */
function stands(name: Buffer, message: Buffer, at: number): boolean {
  for (let next = 0; next < name.length; next += 1)
    if (message[at + next] !== name[next]) return false
  return true
}
const begins = (message: Buffer, text: Buffer) => stands(text, message, 0)

/** Cheaper than `JSON.parse`: 50,000 frames arrive per second. */
function numberAfter(message: Buffer, wanted: ReturnType<typeof named>): number {
  const { name } = wanted
  if (!stands(name, message, wanted.at)) wanted.at = message.indexOf(name)
  if (wanted.at < 0) return Number.NaN
  let value = 0
  for (let next = wanted.at + name.length; ; next += 1) {
    const digit = (message[next] ?? 0) - 48
    if (digit < 0 || digit > 9) return value
    value = value * 10 + digit
  }
}

function hear(listener: Listener, message: Buffer, timed: boolean): void {
  const [n, id] = [numberAfter(message, NUMBER), numberAfter(message, ID)]
  if (!(id > listener.id) || listener.heard[n] !== 0) listener.wrong = true
  listener.heard[n] = 1
  listener.count += 1
  listener.id = id
  if (!timed) return
  const ms = Date.now() - numberAfter(message, SENT)
  const bucket = Math.min(waits.length - 1, Math.max(0, Math.round(ms * BUCKETS_A_MS)))
  waits[bucket] = (waits[bucket] ?? 0) + 1
}

function open(
  { url, channel }: WebSocketListenersPlan,
  key: string,
  listener: Listener,
  since?: string,
) {
  const timed = since === undefined
  return new Promise<void>((resolve, reject) => {
    const hearing = (message: Buffer, on: BenchmarkWebSocketConnection) => {
      if (begins(message, EVENT)) hear(listener, message, timed)
      else if (begins(message, READY)) {
        const frame = { type: 'subscribe', ref: '1', channels: [channel], since }
        on.send(JSON.stringify(frame))
      } else if (begins(message, ACK)) resolve()
    }
    const address = `${url}/api/ws`
    const how = { protocol: 'gas.v1', headers: { 'x-api-key': key }, hear: hearing, fail: reject }
    connectMinimalWebSocket({ url: address, ...how }).then(
      (socket) => (listener.socket = socket),
      reject,
    )
  })
}

function quantile(share: number): number {
  let left = share * waits.reduce((all, count) => all + count, 0)
  return waits.findIndex((count) => (left -= count) <= 0) / BUCKETS_A_MS
}

async function run(plan: WebSocketListenersPlan): Promise<void> {
  const listeners: Listener[] = []
  const fresh = (): Listener => ({
    socket: null,
    heard: new Uint8Array(MAX_SIGNALS),
    count: 0,
    id: 0,
    wrong: false,
  })
  for (let at = 0; at < plan.keys.length; at += 50) {
    const some = plan.keys.slice(at, at + 50).map((key) => ({ key, listener: fresh() }))
    await Promise.all(some.map(({ key, listener }) => open(plan, key, listener)))
    listeners.push(...some.map(({ listener }) => listener))
  }
  const [wanderer] = listeners
  let left = 0
  let cpu = process.cpuUsage()
  let warm = 0
  const heardByAll = () => listeners.reduce((all, { count }) => all + count, 0)
  const heardAll = async (total: number) => {
    const until = Date.now() + 10_000
    while (listeners.some(({ count }) => count < total) && Date.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const does: Record<string, (of: string) => Promise<string> | string> = {
    /** Signals received so far were warm-up: they count for order, not for latency. */
    async begin(of) {
      await heardAll(Number(of))
      waits.fill(0)
      warm = heardByAll()
      cpu = process.cpuUsage()
      return 'begun'
    },
    leave() {
      left = wanderer?.count ?? 0
      wanderer?.socket?.end()
      return 'left'
    },
    async comeBack() {
      if (wanderer !== undefined)
        await open(plan, plan.keys[0] ?? '', wanderer, String(wanderer.id))
      return 'back'
    },
    async end(of) {
      const total = Number(of)
      await heardAll(total)
      const { user, system } = process.cpuUsage(cpu)
      const heard: WebSocketListenerBenchmarkReport = {
        frames: heardByAll() - warm,
        wrong: listeners.filter(({ count, wrong }) => wrong || count !== total).length,
        p50: quantile(0.5),
        p99: quantile(0.99),
        cpu: user + system,
        missed: total - left,
        replayed: (wanderer?.count ?? 0) - left,
      }
      return JSON.stringify(heard)
    },
  }
  console.log('listening')
  for await (const line of createInterface(process.stdin)) {
    const [what = '', of = ''] = line.split(' ')
    console.log((await does[what]?.(of)) ?? '')
  }
  for (const { socket } of listeners) socket?.end()
}

if (program.endsWith('websocket-listeners.ts') && file !== undefined)
  await run(JSON.parse(readFileSync(file, 'utf8')) as WebSocketListenersPlan)
