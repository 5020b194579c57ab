import { Agent as Pool, request } from 'undici'
import { setTimeout as pause } from 'node:timers/promises'
import { joined, type FrameIn } from '../support/sockets.ts'

/** One request of an adversary. */
export interface Ask {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly key?: string
  /** Where it comes from, as a proxy reports it. */
  readonly address: string
  readonly json?: object
  readonly headers?: Readonly<Record<string, string>>
  /** Cuts the connection as soon as a stream has delivered text or a partial result. */
  readonly cut?: boolean
  /** Sent over a WebSocket instead, as a frame. */
  readonly frame?: object
}

export interface Frame {
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
  readonly body: Readonly<Record<string, unknown>>
  readonly frames: readonly Frame[]
}

export interface Client {
  send(base: string, ask: Ask): Promise<Reply>
  close(): Promise<void>
}

const PATIENCE_MS = 120_000
/** So long a frame of a socket may go without an answer. */
const SILENCE_MS = 30_000
const DELIVERED = /^event: (text|partial)\ndata: .*\n\n/m

/** Sends requests over real sockets, as many at once as are asked for. */
export function createClient(): Client {
  const pool = new Pool({ headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS })
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

/** One frame on a socket of its own; its answer has the form that an HTTP request would get. */
async function overSocket(base: string, key: string, frame: object): Promise<Reply> {
  const works: (() => unknown)[] = []
  const late = new AbortController()
  const silence = pause(SILENCE_MS, SILENT, { signal: late.signal }).catch(() => SILENT)
  const asking = joined({ teardown: (work) => works.push(work) }, base, key)
    .then((socket) => socket.ask(frame))
    .then(answerOf, refusalOf)
  // A frame that nobody answers is told from a slow answer, and is a fault.
  const reply = await Promise.race([asking, silence])
  late.abort()
  for (const work of works) work()
  return reply
}

const SILENT: Reply = { status: 599, headers: {}, text: 'no answer', body: {}, frames: [] }

function answerOf({ type, problem, ...rest }: FrameIn): Reply {
  const body = type === 'error' ? problem : ((rest['result'] ?? rest) as Reply['body'])
  const status = type === 'error' ? Number(problem['status']) : 200
  return { status, headers: {}, text: JSON.stringify(body), body, frames: [] }
}

/** An upgrade that was refused, as the answer it is. */
function refusalOf(error: unknown): Reply {
  const { status, code } = error as { status?: number; code?: string }
  if (status === undefined) throw error
  return { status, headers: {}, text: String(code), body: { code }, frames: [] }
}

async function read(body: AsyncIterable<Buffer>, cut: boolean): Promise<string> {
  let text = ''
  for await (const piece of body) {
    text += piece.toString('utf8')
    // Leaving the loop destroys the body, and with it the connection.
    if (cut && DELIVERED.test(text)) break
  }
  return text
}

function bodyOf(type: string, text: string): Reply['body'] {
  if (!/json/.test(type) || text === '') return {}
  const parsed: unknown = JSON.parse(text)
  return typeof parsed === 'object' && parsed !== null ? (parsed as Reply['body']) : {}
}

function framesOf(text: string): Frame[] {
  return text.split('\n\n').flatMap((block) => {
    const [, event, data] = /^(?:id: .*\n)?event: (.+)\ndata: (.+)$/.exec(block) ?? []
    if (event === undefined || data === undefined) return []
    return [{ event, data: JSON.parse(data) as Frame['data'] }]
  })
}
