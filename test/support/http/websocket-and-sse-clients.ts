import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { WebSocket, type ClientOptions } from 'ws'

/** WebSocket and event stream clients for tests. */

type Test = { teardown(work: () => unknown): unknown }

/** Fields of frames that tests read. */
export interface ReceivedWebSocketFrame {
  readonly [name: string]: unknown
  readonly type: string
  readonly ref?: string
  readonly id: string
  readonly channel: string
  readonly kind: string
  readonly session: string
  readonly cursor: { readonly signals: string; readonly outbox: string }
  readonly data: Readonly<Record<string, unknown>>
  readonly problem: Readonly<Record<string, unknown>> & { readonly code: string }
}

interface SocketOptions {
  /** Sent in the upgrade. */
  readonly key?: string | undefined
  readonly protocols?: readonly string[]
  readonly options?: ClientOptions
}

/** A WebSocket client that records every frame in order. */
export interface WebSocketTestClient {
  readonly socket: WebSocket
  readonly frames: readonly ReceivedWebSocketFrame[]
  send(frame: object): void
  /** Resolves with the first matching frame, past or future. */
  next(match: (frame: ReceivedWebSocketFrame) => boolean): Promise<ReceivedWebSocketFrame>
  /** Sends a frame with a new `ref` and waits for its reply. */
  ask(frame: object): Promise<ReceivedWebSocketFrame>
  events(kind?: string): ReceivedWebSocketFrame[]
  /** Resolves with the close code. */
  readonly closed: Promise<number>
  close(): Promise<void>
}

let refs = 0

/** Opens a WebSocket; rejects with the status of a refused upgrade. */
export async function connectWebSocket(
  t: Test,
  url: string,
  opened: SocketOptions = {},
): Promise<WebSocketTestClient> {
  const { key, protocols = ['gas.v1'], options = {} } = opened
  const headers = key === undefined ? {} : { 'x-api-key': key }
  const address = `${url.replace('http', 'ws')}/api/ws`
  const socket = new WebSocket(address, [...protocols], { headers, ...options })
  t.teardown(() => socket.terminate())
  const frames: ReceivedWebSocketFrame[] = []
  const waiting = new Set<() => void>()
  const look = () => waiting.forEach((one) => one())
  let ended = false
  socket.on('message', (data) => {
    frames.push(JSON.parse((data as Buffer).toString('utf8')) as ReceivedWebSocketFrame)
    look()
  })
  socket.on('error', () => {})
  const closed = new Promise<number>((resolve) => {
    socket.once('close', (code) => {
      ended = true
      look()
      resolve(code)
    })
  })
  const next = (match: (frame: ReceivedWebSocketFrame) => boolean) =>
    new Promise<ReceivedWebSocketFrame>((resolve, reject) => {
      const check = () => {
        const found = frames.find(match)
        if (found === undefined && !ended) return
        waiting.delete(check)
        if (found !== undefined) resolve(found)
        else reject(new Error(`the socket closed; it had said ${JSON.stringify(frames.slice(-3))}`))
      }
      waiting.add(check)
      check()
    })
  const client: WebSocketTestClient = {
    socket,
    frames,
    send: (frame) => socket.send(JSON.stringify(frame)),
    next,
    ask(frame) {
      const ref = `r${(refs += 1)}`
      client.send({ ref, ...frame })
      return next((one) => one.ref === ref && one.type !== 'event')
    },
    events: (kind) =>
      frames.filter((frame) => frame.type === 'event' && (kind ?? frame.kind) === frame.kind),
    closed,
    async close() {
      socket.close()
      await closed
    },
  }
  const [refused] = await Promise.race([
    once(socket, 'open').then(() => []),
    once(socket, 'unexpected-response').then(([, answer]) => [answer as IncomingMessage]),
  ])
  if (refused !== undefined) throw await readUpgradeRejection(refused)
  return client
}

/** An upgrade answered with a problem document. */
class UpgradeRejected extends Error {
  readonly status: number
  readonly code: string
  constructor(status: number, code: string) {
    super(`the upgrade was answered with ${status} ${code}`)
    this.status = status
    this.code = code
  }
}

async function readUpgradeRejection(answer: IncomingMessage): Promise<UpgradeRejected> {
  let text = ''
  for await (const part of answer) text += String(part)
  return new UpgradeRejected(answer.statusCode ?? 0, (JSON.parse(text) as { code: string }).code)
}

/** Opens a WebSocket and waits for its ready frame. */
export async function connectReadyWebSocket(
  t: Test,
  url: string,
  key: string,
): Promise<WebSocketTestClient> {
  const client = await connectWebSocket(t, url, { key })
  await client.next(({ type }) => type === 'ready')
  return client
}

export interface ReceivedSseEvent {
  readonly id: string | null
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

/** An event stream reader with the events received so far. */
export interface SseTestReader {
  readonly status: number
  readonly type: string
  /** The body of a rejection. */
  readonly text: string
  readonly events: readonly ReceivedSseEvent[]
  next(match: (event: ReceivedSseEvent) => boolean): Promise<ReceivedSseEvent>
  /** Resolves when the service ends the stream. */
  readonly ended: Promise<void>
  close(): void
}

/** Opens an event stream; reads a rejection to its end. */
export async function openSseReader(
  t: Test,
  url: string,
  key: string | null,
  headers: Readonly<Record<string, string>> = {},
): Promise<SseTestReader> {
  const asked = request(url, {
    headers: { ...(key === null ? {} : { 'x-api-key': key }), ...headers },
  })
  t.teardown(() => asked.destroy())
  asked.on('error', () => {})
  asked.end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  const events: ReceivedSseEvent[] = []
  const waiting = new Set<() => void>()
  const look = () => waiting.forEach((one) => one())
  let [rest, over] = ['', false]
  let text = ''
  answer.on('data', (part: Buffer) => {
    text += part.toString('utf8')
    const blocks = `${rest}${part.toString('utf8')}`.split('\n\n')
    rest = blocks.pop() ?? ''
    events.push(...blocks.flatMap(eventOf))
    look()
  })
  const ended = new Promise<void>((resolve) => {
    answer.once('close', () => {
      over = true
      look()
      resolve()
    })
  })
  answer.on('error', () => {})
  const status = answer.statusCode ?? 0
  if (status !== 200) await ended
  return {
    status,
    type: String(answer.headers['content-type']),
    get text() {
      return text
    },
    events,
    next: (match) =>
      new Promise((resolve, reject) => {
        const check = () => {
          const found = events.find(match)
          if (found === undefined && !over) return
          waiting.delete(check)
          if (found !== undefined) resolve(found)
          else reject(new Error('the stream ended'))
        }
        waiting.add(check)
        check()
      }),
    ended,
    close: () => asked.destroy(),
  }
}

function eventOf(block: string): ReceivedSseEvent[] {
  const fields = Object.fromEntries(
    block.split('\n').map((line) => [line.split(': ', 1)[0], line.slice(line.indexOf(': ') + 2)]),
  ) as Record<string, string>
  const { id = null, event, data } = fields
  return event === undefined || data === undefined
    ? []
    : [{ id, event, data: JSON.parse(data) as ReceivedSseEvent['data'] }]
}
