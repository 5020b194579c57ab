import { encodeWebSocketTextFrame } from './websocket-text-frame.ts'

/** One event or several, encoded for sending. */
export interface EncodedWebSocketAndSseEvents {
  /** Encoded WebSocket frames. */
  frames(): readonly Buffer[]
  /** Encoded server-sent events of the signal stream. */
  events(): readonly Buffer[]
}

/** An immutable, ordered list of events. */
export interface EncodedWebSocketAndSseEventBatch<R> extends EncodedWebSocketAndSseEvents {
  readonly rows: readonly R[]
  /** Id of the first event; 0 for events without ids. */
  readonly from: bigint
  append(row: R): EncodedWebSocketAndSseEventBatch<R>
  /** Returns null when no event is left. */
  filter(wanted: (row: R) => boolean): EncodedWebSocketAndSseEventBatch<R> | null
}

/** Encodes events of one kind. Each row is encoded once for all subscribers. */
export interface WebSocketAndSseEventEncoder<R> {
  encodeFrame(row: R): Buffer
  encodeEvent(row: R): Buffer
}

export function createWebSocketAndSseEventEncoder<R extends object>(
  frame: (row: R) => string,
  event: (row: R) => string = frame,
): WebSocketAndSseEventEncoder<R> {
  const [frames, events] = [new WeakMap<R, Buffer>(), new WeakMap<R, Buffer>()]
  return {
    encodeFrame: (row) => memoizeByRow(frames, row, () => encodeWebSocketTextFrame(frame(row))),
    encodeEvent: (row) => memoizeByRow(events, row, () => Buffer.from(event(row))),
  }
}

function memoizeByRow<R extends object>(
  all: WeakMap<R, Buffer>,
  row: R,
  make: () => Buffer,
): Buffer {
  const found = all.get(row)
  if (found !== undefined) return found
  const made = make()
  all.set(row, made)
  return made
}

export function createWebSocketAndSseEventBatch<R extends object>(
  rows: readonly R[],
  words: WebSocketAndSseEventEncoder<R>,
): EncodedWebSocketAndSseEventBatch<R> {
  let [frames, events]: [Buffer[] | null, Buffer[] | null] = [null, null]
  return {
    rows,
    from: idOf(rows[0]),
    frames: () => (frames ??= concatSmallBuffers(rows.map(words.encodeFrame))),
    events: () => (events ??= concatSmallBuffers(rows.map(words.encodeEvent))),
    append: (row) => createWebSocketAndSseEventBatch([...rows, row], words),
    filter(wanted) {
      const left = rows.filter(wanted)
      return left.length === 0 ? null : createWebSocketAndSseEventBatch(left, words)
    },
  }
}

/** Small buffers are merged, because one write is cheaper; large ones are not copied. */
const MAX_CONCAT_BYTES = 16_384

function concatSmallBuffers(all: Buffer[]): Buffer[] {
  if (all.length === 1) return all
  const bytes = all.reduce((sum, { length }) => sum + length, 0)
  return bytes <= MAX_CONCAT_BYTES ? [Buffer.concat(all)] : all
}

const idOf = (row: object | undefined): bigint =>
  row !== undefined && 'id' in row && typeof row.id === 'bigint' ? row.id : 0n
