import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { WebSocket } from 'ws'

/** Many sockets in a process of their own, one for each key; each counts what it hears of a channel. */
const [, program = '', file] = process.argv

export interface ListenPlan {
  readonly url: string
  readonly channel: string
  readonly keys: readonly string[]
}

export interface Heard {
  /** Frames of all sockets. */
  readonly frames: number
  /** Sockets that did not get every signal once and in order. */
  readonly wrong: number
  /** Milliseconds from the publisher's request to the frame. */
  readonly p50: number
  readonly p99: number
  /** Microseconds of this process. */
  readonly cpu: number
  /** What a client that was away for a while missed, and what it was given of it. */
  readonly missed: number
  readonly replayed: number
}

const BUCKETS_A_MS = 10
const MOST_MS = 2_000
const waits = new Uint32Array(MOST_MS * BUCKETS_A_MS)

interface Listener {
  socket: WebSocket
  /** The number of the signal that comes next. */
  next: number
  wrong: boolean
  cursor: string
}

/** Cheaper than parsing: 50,000 frames a second come by. */
function numberAfter(text: string, name: string): number {
  const at = text.indexOf(name)
  return at < 0
    ? Number.NaN
    : Number.parseFloat(text.slice(at + name.length, at + name.length + 18))
}

function hear(listener: Listener, text: string, timed: boolean): void {
  if (!text.startsWith('{"type":"event"')) return
  const n = numberAfter(text, '"n":')
  if (n !== listener.next) listener.wrong = true
  listener.next = n + 1
  listener.cursor = String(numberAfter(text, '"id":"'))
  if (!timed) return
  const ms = Date.now() - numberAfter(text, '"sent":')
  const bucket = Math.min(waits.length - 1, Math.max(0, Math.round(ms * BUCKETS_A_MS)))
  waits[bucket] = (waits[bucket] ?? 0) + 1
}

function open({ url, channel }: ListenPlan, key: string, listener: Listener, since?: string) {
  const address = `${url.replace('http', 'ws')}/api/ws`
  const socket = new WebSocket(address, 'gas.v1', { headers: { 'x-api-key': key } })
  listener.socket = socket
  const timed = since === undefined
  return new Promise<void>((resolve, reject) => {
    socket.on('error', reject)
    socket.on('message', (data: Buffer) => {
      const text = data.toString('latin1')
      hear(listener, text, timed)
      if (text.startsWith('{"type":"ready"')) {
        const frame = { type: 'subscribe', ref: '1', channels: [channel], since }
        socket.send(JSON.stringify(frame))
      } else if (text.startsWith('{"type":"ack"')) resolve()
    })
  })
}

function quantile(share: number): number {
  let left = share * waits.reduce((all, count) => all + count, 0)
  return waits.findIndex((count) => (left -= count) <= 0) / BUCKETS_A_MS
}

async function run(plan: ListenPlan): Promise<void> {
  const listeners: Listener[] = []
  const fresh = (): Listener => ({ socket: null as never, next: 0, wrong: false, cursor: '' })
  for (let at = 0; at < plan.keys.length; at += 50) {
    const some = plan.keys.slice(at, at + 50).map((key) => ({ key, listener: fresh() }))
    await Promise.all(some.map(({ key, listener }) => open(plan, key, listener)))
    listeners.push(...some.map(({ listener }) => listener))
  }
  const [wanderer] = listeners
  let left = 0
  let cpu = process.cpuUsage()
  const does: Record<string, (of: string) => Promise<string> | string> = {
    begin() {
      cpu = process.cpuUsage()
      return 'begun'
    },
    leave() {
      left = wanderer?.next ?? 0
      wanderer?.socket.terminate()
      return 'left'
    },
    async comeBack() {
      if (wanderer !== undefined) await open(plan, plan.keys[0] ?? '', wanderer, wanderer.cursor)
      return 'back'
    },
    async end(of) {
      const total = Number(of)
      const until = Date.now() + 10_000
      while (listeners.some(({ next }) => next < total) && Date.now() < until)
        await new Promise((resolve) => setTimeout(resolve, 20))
      const { user, system } = process.cpuUsage(cpu)
      const heard: Heard = {
        frames: listeners.reduce((all, { next }) => all + next, 0),
        wrong: listeners.filter(({ next, wrong }) => wrong || next !== total).length,
        p50: quantile(0.5),
        p99: quantile(0.99),
        cpu: user + system,
        missed: total - left,
        replayed: (wanderer?.next ?? 0) - left,
      }
      return JSON.stringify(heard)
    },
  }
  console.log('listening')
  for await (const line of createInterface(process.stdin)) {
    const [what = '', of = ''] = line.split(' ')
    console.log((await does[what]?.(of)) ?? '')
  }
  for (const { socket } of listeners) socket.terminate()
}

if (program.endsWith('listeners.ts') && file !== undefined)
  await run(JSON.parse(readFileSync(file, 'utf8')) as ListenPlan)
