import { toExactJson } from '../../core/json/exact.ts'
import type { FastifyReply } from 'fastify'
import { createBackpressuredResponseWriter } from './chunked-response-writer.ts'

/** Server-sent event streams with backpressure. */

export const SSE_HEARTBEAT_MS = 15_000
const RETRY_MS = 2_000
/** A reader that can resume is disconnected this far behind. */
const MAX_BUFFERED_BYTES = 1_048_576
const READ_TIMEOUTS = {
  /** A reader may accept no buffered data for this long. */
  idleMs: 30_000,
  /** After its end a stream is read for at most this long. */
  lastReadMs: 120_000,
}
/** Idle checks per timeout. */
const IDLE_CHECKS = 3
/** After its end a reader that can resume gets as long as a closing socket. */
const RESUMABLE_DRAIN_MS = 2_000
/** Below this a replay may continue. */
const HIGH_WATER_BYTES = 262_144

/**
 * An open event stream: `id`, `event` and one line of JSON per frame, and a comment every 15 s (decision 43).
 */
export interface SseStream {
  /** Sends a frame. A frame without an id leaves the reader's cursor unchanged. */
  send(event: string, data: unknown, id?: bigint | string): void
  /** Moves the reader's cursor, without an event. */
  sendCursor(id: bigint): void
  /** Writes encoded frames. */
  write(frames: string | Buffer): void
  /** Returns whether the reader has unread data. */
  isBehind(): boolean
  /** Resolves to true when the reader has caught up, to false when it has disconnected. */
  waitForRoom(): Promise<boolean>
  /**
   * Ends the stream. A reader that does not take the rest is disconnected after two minutes, or two seconds
   * where it can resume, since shutdown waits for it.
   */
  end(): void
  /** Resolves when the reader has received everything or has disconnected. */
  readonly closed: Promise<void>
}

/**
 * Turns the reply into a stream and sends the headers set so far. A reader that can `resume` is disconnected
 * when it is 1 MiB behind. One that cannot is disconnected only after accepting nothing for 30 seconds,
 * however much is buffered: it has paid for what it would miss.
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
  const pieces = createBackpressuredResponseWriter(raw)
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
        `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${toExactJson(data)}\n\n`,
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

/** Destroys the reply when its reader accepts no buffered data for `idleMs`. */
function startIdleTimer(raw: FastifyReply['raw'], idleMs: number): NodeJS.Timeout {
  let before = -1
  let idleChecks = 0
  return setInterval(() => {
    const { socket } = raw
    if (socket === null) return
    // Bytes that the system has accepted; the heartbeat adds to both counters and cancels out.
    const taken = socket.bytesWritten - socket.writableLength
    idleChecks = raw.writableLength === 0 || taken !== before ? 0 : idleChecks + 1
    before = taken
    if (idleChecks >= IDLE_CHECKS) raw.destroy()
  }, idleMs / IDLE_CHECKS)
}

/** Resolves when the buffer is empty. */
const onceDrained = (raw: FastifyReply['raw']): Promise<void> =>
  new Promise((resolve) => raw.once('drain', resolve))

/**
 * Calls `work` once when a reply is fully sent, or its reader has disconnected. A reply queued behind another
 * on its connection emits no close of its own, so the connection's close counts too.
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
