import { readFileSync } from 'node:fs'
import { quantile } from '../chaos/quantiles-machine-info-and-text-tables.ts'
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

async function run(plan: WebSocketRefuelPlan): Promise<WebSocketRefuelReport> {
  const { url, keys, call, warmUpMs, measureMs } = plan
  const times: number[] = []
  let failed = 0
  const from = performance.now() + warmUpMs
  const until = from + measureMs
  async function callInTurn(key: string): Promise<void> {
    let [sentAt, calls] = [0, 0]
    let finish = (_error?: Error) => {}
    const ended = new Promise<void>((done, fail) => {
      finish = (error) => (error === undefined ? done() : fail(error))
    })
    const socket = await connectMinimalWebSocket({
      url,
      protocol: 'gas.v1',
      headers: { 'x-api-key': key },
      fail: (error) => finish(error),
      hear(payload) {
        const text = payload.toString('latin1')
        if (ANSWERS.some((start) => text.startsWith(start))) note(text.includes(SUCCESS))
        else if (text.startsWith(READY)) send()
      },
    })
    const send = (): void => {
      if (performance.now() > until) return finish()
      sentAt = performance.now()
      calls += 1
      socket.send(JSON.stringify({ type: 'refuel', ref: String(calls), ...call }))
    }
    const note = (good: boolean): void => {
      const now = performance.now()
      if (sentAt >= from && now <= until) {
        times.push(now - sentAt)
        if (!good) failed += 1
      }
      const wait = sentAt + MIN_INTERVAL_MS - now
      if (wait > 0) setTimeout(send, wait)
      else send()
    }
    // The first frame begins the session of a socket whose upgrade had the key.
    socket.send(JSON.stringify({ type: 'hello' }))
    await ended.finally(() => socket.end())
  }
  await Promise.all(keys.map(callInTurn))
  const rate = times.length / (measureMs / 1_000)
  const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)]
  return { rate, p50, p99, answers: times.length, failed }
}

const [, program = '', file] = process.argv
if (program.endsWith('websocket-refuel-callers.ts') && file !== undefined)
  console.log(
    JSON.stringify(await run(JSON.parse(readFileSync(file, 'utf8')) as WebSocketRefuelPlan)),
  )
