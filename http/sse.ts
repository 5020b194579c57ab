import type { FastifyReply } from 'fastify'

const HEARTBEAT_MS = 15_000
const RETRY_MS = 2_000
/** A reader this far behind is let go; it resumes or asks again. */
const MOST_BUFFERED_BYTES = 1_048_576

/** An open event stream: `event` and one line of JSON a frame, a comment every 15 s (decision 43). */
export interface EventStream {
  send(event: string, data: unknown): void
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
  const write = (text: string) => {
    if (raw.writableEnded || raw.destroyed) return
    raw.write(text)
    if (raw.writableLength > MOST_BUFFERED_BYTES) slow()
  }
  const heartbeat = setInterval(write, HEARTBEAT_MS, ': \n\n')
  raw.once('close', () => clearInterval(heartbeat))
  write(`retry: ${RETRY_MS}\n\n`)
  return {
    send: (event, data) => write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`),
    end() {
      clearInterval(heartbeat)
      if (!raw.writableEnded) raw.end()
    },
  }
}
