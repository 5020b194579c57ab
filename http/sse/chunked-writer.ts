import type { ServerResponse } from 'node:http'

/** So much is handed to the system at a time: what it has taken of one write is seen only at its end. */
const CHUNK_BYTES = 65_536

/** Hands a reply over piece by piece, each when the one before is on its way. */
export function createChunkedWriter(raw: ServerResponse) {
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
    /** What the system has not taken yet. */
    held: (): number => bytes + raw.writableLength,
    /** Nothing follows what waits. */
    end(): void {
      ended = true
      pump()
    },
    isEnded: () => ended,
    /** The reader has gone: nothing is held for it. */
    drop(): void {
      waiting.length = 0
      bytes = 0
      ended = true
    },
  }
}
