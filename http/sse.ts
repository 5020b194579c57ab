import type { FastifyReply } from 'fastify'

export const EVENTS_HEARTBEAT_MS = 15_000
const RETRY_MS = 2_000
/** A reader this far behind is let go; it resumes or asks again. */
const MOST_BUFFERED_BYTES = 1_048_576
/** Below this there is room for more of what is replayed. */
const ROOM_BYTES = 262_144

/** An open event stream: `event` and one line of JSON a frame, a comment every 15 s (decision 43). */
export interface EventStream {
  send(event: string, data: unknown, id?: bigint): void
  /** A frame as it goes over the wire. */
  write(frame: string): void
  /** Resolves when the reader has caught up; false once it has gone. */
  room(): Promise<boolean>
  end(): void
}

/**
 * Takes the reply over for a stream; headers set so far are sent with it. `slow` is called when the
 * reader has fallen too far behind.
 */
export function openStream(reply: FastifyReply, slow: () => void): EventStream {
  reply.hijack()
  const { raw } = reply
  raw.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'private, no-store',
    'x-accel-buffering': 'no',
  })
  const gone = () => raw.writableEnded || raw.destroyed
  const write = (text: string) => {
    if (gone()) return
    raw.write(text)
    if (raw.writableLength > MOST_BUFFERED_BYTES) slow()
  }
  const heartbeat = setInterval(write, EVENTS_HEARTBEAT_MS, ': \n\n')
  raw.once('close', () => clearInterval(heartbeat))
  write(`retry: ${RETRY_MS}\n\n`)
  return {
    send: (event, data, id) =>
      write(
        `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`,
      ),
    write,
    async room() {
      while (!gone() && raw.writableLength > ROOM_BYTES) await drained(raw)
      return !gone()
    },
    end() {
      clearInterval(heartbeat)
      if (!raw.writableEnded) raw.end()
    },
  }
}

/** Until the buffer is empty or the reader has gone. */
function drained(raw: FastifyReply['raw']): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      raw.off('drain', done).off('close', done)
      resolve()
    }
    raw.on('drain', done).on('close', done)
  })
}
