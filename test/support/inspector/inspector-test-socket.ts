import { WebSocket } from 'ws'

/** A client of the inspector's socket for tests. */

type Test = { teardown(work: () => unknown): unknown }

/** Members of frames that tests read. */
export interface ReceivedInspectorFrame {
  readonly [name: string]: unknown
  readonly type: string
  readonly sessionId: string
  readonly rootId: string
  readonly name: string
  readonly definition?: string
  readonly parentId?: string
  readonly sourceId?: string
  readonly event: Readonly<Record<string, unknown>> & { readonly type: string }
  readonly snapshot: {
    readonly status: string
    readonly value: unknown
    readonly context: Record<string, unknown>
  }
  readonly gas: Readonly<{
    version: number
    command: string
    command_id: string
    call_id?: string
    request_id?: string
    cause: string
    edges: readonly string[]
    refused?: string
    node: string
    seq: number
  }>
}

export interface InspectorTestSocket {
  readonly socket: WebSocket
  readonly frames: ReceivedInspectorFrame[]
  /** The text of all frames. */
  text(): string
  send(frame: object): void
  /** Resolves with the first matching frame, past or future. */
  next(match: (frame: ReceivedInspectorFrame) => boolean): Promise<ReceivedInspectorFrame>
  readonly closed: Promise<number>
}

/** Opens the socket; rejects with the status of a refused upgrade. */
export async function connectInspectorTestSocket(
  t: Test,
  url: string,
  { query = '', headers = {} }: { query?: string; headers?: Record<string, string> },
): Promise<InspectorTestSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/inspector/ws${query}`, { headers })
  t.teardown(() => socket.terminate())
  const frames: ReceivedInspectorFrame[] = []
  const texts: string[] = []
  const waiting = new Set<() => void>()
  socket.on('message', (data) => {
    const text = (data as Buffer).toString('utf8')
    texts.push(text)
    frames.push(JSON.parse(text) as ReceivedInspectorFrame)
    for (const look of waiting) look()
  })
  const closed = new Promise<number>((resolve) => socket.once('close', resolve))
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve)
    socket.once('unexpected-response', (_request, response) =>
      reject(new Error(String(response.statusCode))),
    )
    socket.on('error', reject)
  })
  return {
    socket,
    frames,
    closed,
    text: () => texts.join('\n'),
    send: (frame) => socket.send(JSON.stringify(frame)),
    next: (match) =>
      new Promise((resolve) => {
        const look = () => {
          const found = frames.find(match)
          if (found === undefined) return
          waiting.delete(look)
          resolve(found)
        }
        waiting.add(look)
        look()
      }),
  }
}
