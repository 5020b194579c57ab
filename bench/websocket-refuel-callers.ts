import { readFileSync } from 'node:fs'
import { quantile } from '../chaos/quantiles-host-hardware-and-text-tables.ts'
import { connectMinimalWebSocket } from './minimal-websocket-client.ts'

/** Calls a paid tool over one WebSocket per key, in a separate process; each answer triggers the next call. */

export interface WebSocketRefuelPlan {
  readonly url: string
  readonly keys: readonly string[]
  readonly call: object
  readonly warmUpMs: number
  readonly measureMs: number
}

export interface WebSocketRefuelReport {
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly answers: number
  readonly failed: number
}

/** A socket may send 20 frames a second. */
const MIN_INTERVAL_MS = 55
const READY = '{"type":"ready"'
const SUCCESS = '"ok":true'
const ANSWERS = ['{"type":"ack"', '{"type":"error"']

interface CallingWebSocket {
  /** Calls one after the other; resolves at the end of the measurement. */
  callUntil(end: number, onAnswer: (sentAt: number, good: boolean) => void): Promise<void>
  close(): void
}

/** Resolves once the session is open. */
async function openCallingWebSocket(
  { url, call }: WebSocketRefuelPlan,
  key: string,
): Promise<CallingWebSocket> {
  const state = { sentAt: 0, calls: 0 }
  let answered = (_good: boolean) => {}
  let fail = (_error: Error) => {}
  let opened = () => {}
  const ready = new Promise<void>((resolve, reject) => ([opened, fail] = [resolve, reject]))
  const socket = await connectMinimalWebSocket({
    url,
    protocol: 'gas.v1',
    headers: { 'x-api-key': key },
    fail: (error) => fail(error),
    hear(payload) {
      const text = payload.toString('latin1')
      if (ANSWERS.some((start) => text.startsWith(start))) answered(text.includes(SUCCESS))
      else if (text.startsWith(READY)) opened()
    },
  })
  // The first frame begins the session of a socket whose upgrade had the key.
  socket.send(JSON.stringify({ type: 'hello' }))
  await ready
  const send = (): void => {
    state.sentAt = performance.now()
    state.calls += 1
    socket.send(JSON.stringify({ type: 'refuel', ref: String(state.calls), ...call }))
  }
  return {
    callUntil: (end, onAnswer) =>
      new Promise((done, failed) => {
        fail = failed
        answered = (good) => {
          onAnswer(state.sentAt, good)
          const now = performance.now()
          const wait = state.sentAt + MIN_INTERVAL_MS - now
          if (now > end) done()
          else if (wait > 0) setTimeout(send, wait)
          else send()
        }
        send()
      }),
    close: () => socket.end(),
  }
}

async function run(plan: WebSocketRefuelPlan): Promise<WebSocketRefuelReport> {
  const { keys, warmUpMs, measureMs } = plan
  const sockets = await Promise.all(keys.map((key) => openCallingWebSocket(plan, key)))
  const times: number[] = []
  let failed = 0
  const from = performance.now() + warmUpMs
  const until = from + measureMs
  const note = (sentAt: number, good: boolean): void => {
    const now = performance.now()
    if (sentAt < from || now > until) return
    times.push(now - sentAt)
    if (!good) failed += 1
  }
  await Promise.all(sockets.map((socket) => socket.callUntil(until, note)))
  for (const socket of sockets) socket.close()
  const rate = times.length / (measureMs / 1_000)
  const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)]
  return { rate, p50, p99, answers: times.length, failed }
}

const [, program = '', file] = process.argv
if (program.endsWith('websocket-refuel-callers.ts') && file !== undefined)
  console.log(
    JSON.stringify(await run(JSON.parse(readFileSync(file, 'utf8')) as WebSocketRefuelPlan)),
  )
