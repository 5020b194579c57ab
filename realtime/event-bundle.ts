import { encodeWebSocketTextFrame } from './websocket-text-frame.ts'

/** What a listener is told: one event, or several that have come together. */
export interface EncodedEvents {
  /** What a socket is sent: whole messages, as they go over the wire. */
  frames(): readonly Buffer[]
  /** Events of the signal stream, as they go over the wire. */
  events(): readonly Buffer[]
}

/** Several events in their order, as they go out together; grown by one it is another bundle. */
export interface EventBundle<R> extends EncodedEvents {
  readonly rows: readonly R[]
  /** The id of the first of them; 0 where they have none. */
  readonly from: bigint
  append(row: R): EventBundle<R>
  /** Null where nothing is left. */
  filter(wanted: (row: R) => boolean): EventBundle<R> | null
}

/** How an event of some kind is written: once, whoever is told of it in whatever company. */
export interface EventEncoder<R> {
  encodeFrame(row: R): Buffer
  encodeEvent(row: R): Buffer
}

export function createEventEncoder<R extends object>(
  frame: (row: R) => string,
  event: (row: R) => string = frame,
): EventEncoder<R> {
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

export function createEventBundle<R extends object>(
  rows: readonly R[],
  words: EventEncoder<R>,
): EventBundle<R> {
  let [frames, events]: [Buffer[] | null, Buffer[] | null] = [null, null]
  return {
    rows,
    from: idOf(rows[0]),
    frames: () => (frames ??= concatSmallBuffers(rows.map(words.encodeFrame))),
    events: () => (events ??= concatSmallBuffers(rows.map(words.encodeEvent))),
    append: (row) => createEventBundle([...rows, row], words),
    filter(wanted) {
      const left = rows.filter(wanted)
      return left.length === 0 ? null : createEventBundle(left, words)
    },
  }
}

/** Small ones are put together, which is cheaper to write; of large ones there is no second copy. */
const MAX_CONCAT_BYTES = 16_384

function concatSmallBuffers(all: Buffer[]): Buffer[] {
  if (all.length === 1) return all
  const bytes = all.reduce((sum, { length }) => sum + length, 0)
  return bytes <= MAX_CONCAT_BYTES ? [Buffer.concat(all)] : all
}

const idOf = (row: object | undefined): bigint =>
  row !== undefined && 'id' in row && typeof row.id === 'bigint' ? row.id : 0n
