import type { FastifyReply } from 'fastify'
import { createChunkedWriter } from './chunked-writer.ts'

export const SSE_HEARTBEAT_MS = 15_000
const RETRY_MS = 2_000
/** A reader that can resume is let go this far behind. */
const MAX_BUFFERED_BYTES = 1_048_576
const READ_TIMEOUTS = {
  /** So long a reader may take nothing of what lies before it. */
  idleMs: 30_000,
  /** After its end a stream is not read for longer than this, however slowly. */
  lastReadMs: 120_000,
}
/** How often it is looked at in that time. */
const IDLE_CHECKS = 3
/** After its end whoever can resume is waited for as long as a socket that is closed. */
const RESUMABLE_DRAIN_MS = 2_000
/** Below this there is room for more of what is replayed. */
const HIGH_WATER_BYTES = 262_144

/** An open event stream: `id`, `event` and one line of JSON a frame, a comment every 15 s (decision 43). */
export interface SseStream {
  /** A frame of which readers resume has an id; one without leaves their cursor where it is. */
  send(event: string, data: unknown, id?: bigint | string): void
  /** Moves the reader's cursor, without an event. */
  sendCursor(id: bigint): void
  /** Frames as they go over the wire. */
  write(frames: string | Buffer): void
  /** The reader has more before it than it can take at once. */
  isBehind(): boolean
  /** Resolves when the reader has caught up; false once it has gone. */
  waitForRoom(): Promise<boolean>
  /**
   * A reader that does not take the rest is let go: at the latest two minutes from here, or two seconds
   * where it can resume, since a station that stops waits for it.
   */
  end(): void
  /** Resolves when the reader has all of it, or has gone. */
  readonly closed: Promise<void>
}

/**
 * Takes the reply over for a stream; headers set so far are sent with it. A reader that can `resume` is
 * let go when it is 1 MiB behind; one that cannot when it has taken nothing for 30 seconds of what lies
 * before it, however much that is: what it misses it would have paid for.
 */
export function openSseStream(
  reply: FastifyReply,
  { resumes }: { readonly resumes: boolean },
  { idleMs, lastReadMs } = READ_TIMEOUTS,
): SseStream {
  reply.hijack()
  const { raw } = reply
  raw.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'private, no-store',
    'x-accel-buffering': 'no',
  })
  const pieces = createChunkedWriter(raw)
  const gone = () => pieces.isEnded() || raw.destroyed
  const write = (frames: string | Buffer) => {
    if (gone()) return
    pieces.write(frames)
    if (resumes && pieces.held() > MAX_BUFFERED_BYTES) raw.destroy()
  }
  const heartbeat = setInterval(write, SSE_HEARTBEAT_MS, ': \n\n')
  const watch = startIdleTimer(raw, idleMs)
  let late: NodeJS.Timeout | undefined
  const closed = new Promise<void>((resolve) =>
    onReplyClosed(reply, () => {
      clearInterval(heartbeat)
      clearInterval(watch)
      clearTimeout(late)
      pieces.drop()
      resolve()
    }),
  )
  write(`retry: ${RETRY_MS}\n\n`)
  return {
    send: (event, data, id) =>
      write(
        `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`,
      ),
    sendCursor: (id) => write(`id: ${id}\n\n`),
    write,
    isBehind: () => pieces.held() > HIGH_WATER_BYTES,
    async waitForRoom() {
      while (!gone() && pieces.held() > HIGH_WATER_BYTES)
        await Promise.race([onceDrained(raw), closed])
      return !gone()
    },
    end() {
      clearInterval(heartbeat)
      if (gone()) return
      late = setTimeout(() => raw.destroy(), resumes ? RESUMABLE_DRAIN_MS : lastReadMs)
      pieces.end()
    },
    closed,
  }
}

/** Destroys the reply of a reader that takes nothing of what lies before it. */
function startIdleTimer(raw: FastifyReply['raw'], idleMs: number): NodeJS.Timeout {
  let before = -1
  let idleChecks = 0
  return setInterval(() => {
    const { socket } = raw
    if (socket === null) return
    // What the system has taken from us; the heartbeat adds to both and changes nothing.
    const taken = socket.bytesWritten - socket.writableLength
    idleChecks = raw.writableLength === 0 || taken !== before ? 0 : idleChecks + 1
    before = taken
    if (idleChecks >= IDLE_CHECKS) raw.destroy()
  }, idleMs / IDLE_CHECKS)
}

/** Until the buffer is empty. */
const onceDrained = (raw: FastifyReply['raw']): Promise<void> =>
  new Promise((resolve) => raw.once('drain', resolve))

/**
 * Calls once when a reply has been taken whole, or its reader has gone. A reply that waits behind another
 * one of its connection never says that it is closed: the connection does.
 */
export function onReplyClosed({ raw, request }: FastifyReply, work: () => void): void {
  const connection = request.raw.socket
  const gone = () => {
    raw.off('close', gone)
    connection.off('close', gone)
    work()
  }
  if (raw.destroyed || connection.destroyed) return work()
  raw.once('close', gone)
  connection.once('close', gone)
}
