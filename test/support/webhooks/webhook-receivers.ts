import type { ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { startFixtureServer, type TeardownScope } from '../upstreams/fixture-server.ts'

/** One request as a receiver of webhooks saw it. */
export interface ReceivedWebhook {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** As it was sent: what is signed. */
  readonly body: string
  readonly id: string
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
  /** What it was answered with. */
  readonly status: number
}

/** How a path answers from now on: with a status, or in a way of its own. */
export type ReceiverBehaviour =
  | number
  | ((response: ServerResponse, request: Omit<ReceivedWebhook, 'status'>) => number)

/** A receiver of webhooks on the loopback; each path is one, and answers as it is told. */
export async function startWebhookReceivers(t: TeardownScope) {
  const manners = new Map<string, ReceiverBehaviour>()
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
    /** What a path took, by its answer. */
    taken: (path: string) => at(path).filter(({ status }) => status >= 200 && status < 300),
    answers(path: string, manner: ReceiverBehaviour): void {
      manners.set(path, manner)
    },
    /** Resolves as soon as what was received is as wanted. */
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

/** Tells what comes from what never comes. */
const DELIVERY_TIMEOUT_MS = 30_000

function parse(body: string): { type?: string; data?: Record<string, unknown> } {
  try {
    return JSON.parse(body) as object
  } catch {
    return {}
  }
}

/** Answers 200, and then a gigabyte, or until it is cut; `told` gets the bytes of each that left. */
export const floodReply =
  (told: number[]): ReceiverBehaviour =>
  (response) => {
    const { socket } = response
    response.writeHead(200)
    response.on('close', () => told.push(socket?.bytesWritten ?? 0))
    pipeline(gigabyte(), response).catch(() => undefined)
    return 200
  }

function* gigabyte(): Generator<Buffer> {
  const piece = Buffer.alloc(64 * 1024)
  for (let sent = 0; sent < 1024 ** 3; sent += piece.length) yield piece
}

/** Says nothing, for ever. */
export const hangReply: ReceiverBehaviour = () => 0

/** A byte of the header now and then. */
export const dripReply: ReceiverBehaviour = (response) => {
  const { socket } = response
  socket?.write('HTTP/1.1 200 OK\r\n')
  const timer = setInterval(() => socket?.write('x'), 50)
  socket?.on('close', () => clearInterval(timer))
  return 0
}

/** Breaks the connection off. */
export const resetConnection: ReceiverBehaviour = (response) => {
  response.socket?.resetAndDestroy()
  return 0
}
