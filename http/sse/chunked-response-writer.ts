import type { ServerResponse } from 'node:http'

/** Writes a response in chunks, so that its progress is observable. */

/** The progress of one write is seen only at its end, so writes are this small. */
const CHUNK_BYTES = 65_536

/** Writes a response chunk by chunk, each after the one before is flushed. */
export function createBackpressuredResponseWriter(raw: ServerResponse) {
  const waiting: Buffer[] = []
  let bytes = 0
  let ended = false
  const isFull = () => raw.writableLength >= CHUNK_BYTES
  function pump(): void {
    while (waiting.length > 0 && !isFull()) {
      const piece = waiting.shift() as Buffer
      bytes -= piece.length
      raw.write(piece)
    }
    if (ended && waiting.length === 0 && !raw.writableEnded) raw.end()
  }
  raw.on('drain', pump)
  return {
    write(frame: string | Buffer): void {
      const whole = typeof frame === 'string' ? Buffer.from(frame) : frame
      for (let at = 0; at < whole.length; at += CHUNK_BYTES)
        waiting.push(whole.subarray(at, at + CHUNK_BYTES))
      bytes += whole.length
      pump()
    },
    /** Bytes that the system has not accepted yet. */
    held: (): number => bytes + raw.writableLength,
    /** Ends the response after the queued chunks. */
    end(): void {
      ended = true
      pump()
    },
    isEnded: () => ended,
    /** Drops the queued chunks of a reader that disconnected. */
    drop(): void {
      waiting.length = 0
      bytes = 0
      ended = true
    },
  }
}
