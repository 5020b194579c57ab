import { Agent as Pool, request } from 'undici'
import { setTimeout as pause } from 'node:timers/promises'
import {
  connectReadyWebSocket,
  type ReceivedWebSocketFrame,
} from '../../test/support/http/websocket-and-sse-clients.ts'

/** One request of an adversary. */
export interface AdversaryRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly key?: string
  /** The client address, as a proxy reports it. */
  readonly address: string
  readonly json?: object
  readonly headers?: Readonly<Record<string, string>>
  /** Disconnects as soon as a stream has delivered text or a partial result. */
  readonly cut?: boolean
  /** Sent as a WebSocket frame instead. */
  readonly frame?: object
}

export interface AdversaryStreamEvent {
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface StationReplyToAdversary {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
  readonly body: Readonly<Record<string, unknown>>
  readonly frames: readonly AdversaryStreamEvent[]
}

export interface AdversaryHttpClient {
  send(base: string, ask: AdversaryRequest): Promise<StationReplyToAdversary>
  close(): Promise<void>
}

const REQUEST_TIMEOUT_MS = 120_000
/** Timeout of a WebSocket reply. */
const SOCKET_REPLY_TIMEOUT_MS = 30_000
const DELIVERED_EVENT = /^event: (text|partial)\ndata: .*\n\n/m

/** Sends requests over real sockets without a concurrency limit. */
export function createAdversaryClient(): AdversaryHttpClient {
  const pool = new Pool({ headersTimeout: REQUEST_TIMEOUT_MS, bodyTimeout: REQUEST_TIMEOUT_MS })
  return {
    async send(base, ask) {
      if (ask.frame !== undefined) return overSocket(base, ask.key ?? '', ask.frame)
      const { method, path, key, address, json, headers = {}, cut = false } = ask
      const reply = await request(`${base}${path}`, {
        method,
        dispatcher: pool,
        headers: {
          'x-forwarded-for': address,
          ...(key === undefined ? {} : { 'x-api-key': key }),
          ...(json === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      })
      const text = await read(reply.body, cut)
      const type = String(reply.headers['content-type'] ?? '')
      return {
        status: reply.statusCode,
        headers: reply.headers,
        text,
        body: bodyOf(type, text),
        frames: type.startsWith('text/event-stream') ? framesOf(text) : [],
      }
    },
    close: () => pool.destroy(),
  }
}

/** Sends one frame on a new socket; returns its reply in the form of an HTTP response. */
async function overSocket(
  base: string,
  key: string,
  frame: object,
): Promise<StationReplyToAdversary> {
  const works: (() => unknown)[] = []
  const late = new AbortController()
  const silence = pause(SOCKET_REPLY_TIMEOUT_MS, NO_REPLY, { signal: late.signal }).catch(
    () => NO_REPLY,
  )
  const asking = connectReadyWebSocket({ teardown: (work) => works.push(work) }, base, key)
    .then((socket) => socket.ask(frame))
    .then(answerOf, refusalOf)
  // A missing reply is a fault; a slow one is not.
  const reply = await Promise.race([asking, silence])
  late.abort()
  for (const work of works) work()
  return reply
}

const NO_REPLY: StationReplyToAdversary = {
  status: 599,
  headers: {},
  text: 'no answer',
  body: {},
  frames: [],
}

function answerOf({ type, problem, ...rest }: ReceivedWebSocketFrame): StationReplyToAdversary {
  const body =
    type === 'error' ? problem : ((rest['result'] ?? rest) as StationReplyToAdversary['body'])
  const status = type === 'error' ? Number(problem['status']) : 200
  return { status, headers: {}, text: JSON.stringify(body), body, frames: [] }
}

/** A rejected upgrade as a reply. */
function refusalOf(error: unknown): StationReplyToAdversary {
  const { status, code } = error as { status?: number; code?: string }
  if (status === undefined) throw error
  return { status, headers: {}, text: String(code), body: { code }, frames: [] }
}

async function read(body: AsyncIterable<Buffer>, cut: boolean): Promise<string> {
  let text = ''
  for await (const piece of body) {
    text += piece.toString('utf8')
    // Leaving the loop destroys the body and closes the connection.
    if (cut && DELIVERED_EVENT.test(text)) break
  }
  return text
}

function bodyOf(type: string, text: string): StationReplyToAdversary['body'] {
  if (!/json/.test(type) || text === '') return {}
  const parsed: unknown = JSON.parse(text)
  return typeof parsed === 'object' && parsed !== null
    ? (parsed as StationReplyToAdversary['body'])
    : {}
}

function framesOf(text: string): AdversaryStreamEvent[] {
  return text.split('\n\n').flatMap((block) => {
    const [, event, data] = /^(?:id: .*\n)?event: (.+)\ndata: (.+)$/.exec(block) ?? []
    if (event === undefined || data === undefined) return []
    return [{ event, data: JSON.parse(data) as AdversaryStreamEvent['data'] }]
  })
}
