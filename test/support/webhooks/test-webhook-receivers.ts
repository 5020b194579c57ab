import type { ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { startFixtureServer, type TeardownScope } from '../upstreams/fixture-server.ts'

/** One request as the receiver got it. */
export interface ReceivedWebhook {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** The raw body, which is signed. */
  readonly body: string
  readonly id: string
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
  /** Status of the reply. */
  readonly status: number
}

/** The later behaviour of a path: a status, or a custom reply. */
export type WebhookReceiverBehaviour =
  | number
  | ((response: ServerResponse, request: Omit<ReceivedWebhook, 'status'>) => number)

/** Local webhook receivers; each path is one, with its own behaviour. */
export async function startWebhookReceivers(t: TeardownScope) {
  const manners = new Map<string, WebhookReceiverBehaviour>()
  const got: ReceivedWebhook[] = []
  const waiting: { wanted: () => boolean; met: () => void }[] = []

  const served = await startFixtureServer(t, (request, response) => {
    void text(request).then((body) => {
      const path = request.url ?? ''
      const headers = request.headers as Record<string, string>
      const { type = '', data = {} } = parse(body)
      const seen = { path, headers, body, id: headers['webhook-id'] ?? '', type, data }
      const manner = manners.get(path) ?? 204
      const status = typeof manner === 'number' ? manner : manner(response, seen)
      got.push({ ...seen, status })
      if (typeof manner === 'number') response.writeHead(status).end()
      for (const one of [...waiting]) if (one.wanted()) one.met()
    })
  })

  const at = (path: string) => got.filter((one) => one.path === path)
  return {
    ...served,
    got,
    at,
    /** Accepted requests of a path. */
    taken: (path: string) => at(path).filter(({ status }) => status >= 200 && status < 300),
    answers(path: string, manner: WebhookReceiverBehaviour): void {
      manners.set(path, manner)
    },
    /** Resolves when the received requests satisfy the condition. */
    async until(wanted: () => boolean, what = 'a delivery'): Promise<void> {
      if (wanted()) return
      await new Promise<void>((resolve, reject) => {
        const late = setTimeout(
          () => reject(new Error(`${what} has not come`)),
          DELIVERY_TIMEOUT_MS,
        )
        const entry = {
          wanted,
          met() {
            clearTimeout(late)
            waiting.splice(waiting.indexOf(entry), 1)
            resolve()
          },
        }
        waiting.push(entry)
      })
    },
  }
}
export type WebhookReceivers = Awaited<ReturnType<typeof startWebhookReceivers>>

/** Far above the duration of a normal delivery. */
const DELIVERY_TIMEOUT_MS = 30_000

function parse(body: string): { type?: string; data?: Record<string, unknown> } {
  try {
    return JSON.parse(body) as object
  } catch {
    return {}
  }
}

/**
 * Answers 200 and then a gigabyte, or until the connection closes; appends the bytes written to
 * `bytesSent`.
 */
export const gigabyteWebhookReply =
  (bytesSent: number[]): WebhookReceiverBehaviour =>
  (response) => {
    const { socket } = response
    response.writeHead(200)
    response.on('close', () => bytesSent.push(socket?.bytesWritten ?? 0))
    pipeline(gigabyte(), response).catch(() => undefined)
    return 200
  }

function* gigabyte(): Generator<Buffer> {
  const piece = Buffer.alloc(64 * 1024)
  for (let sent = 0; sent < 1024 ** 3; sent += piece.length) yield piece
}

/** Never answers. */
export const hangReply: WebhookReceiverBehaviour = () => 0

/** Sends a byte of the header now and then. */
export const dripReply: WebhookReceiverBehaviour = (response) => {
  const { socket } = response
  socket?.write('HTTP/1.1 200 OK\r\n')
  const timer = setInterval(() => socket?.write('x'), 50)
  socket?.on('close', () => clearInterval(timer))
  return 0
}

/** Resets the connection. */
export const resetWebhookConnection: WebhookReceiverBehaviour = (response) => {
  response.socket?.resetAndDestroy()
  return 0
}
