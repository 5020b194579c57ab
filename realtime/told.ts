import { textFrame } from './text-frame.ts'

/** What a listener is told: one event, or several that have come together. */
export interface Told {
  /** What a socket is sent: whole messages, as they go over the wire. */
  frames(): readonly Buffer[]
  /** Events of the signal stream, as they go over the wire. */
  events(): readonly Buffer[]
}

/** Several events in their order, as they go out together; grown by one it is another bundle. */
export interface Bundle<R> extends Told {
  readonly rows: readonly R[]
  /** The id of the first of them; 0 where they have none. */
  readonly from: bigint
  with(row: R): Bundle<R>
  /** Null where nothing is left. */
  only(wanted: (row: R) => boolean): Bundle<R> | null
}

/** How an event of some kind is written: once, whoever is told of it in whatever company. */
export interface Wording<R> {
  frame(row: R): Buffer
  event(row: R): Buffer
}

export function wording<R extends object>(
  frame: (row: R) => string,
  event: (row: R) => string = frame,
): Wording<R> {
  const [frames, events] = [new WeakMap<R, Buffer>(), new WeakMap<R, Buffer>()]
  return {
    frame: (row) => kept(frames, row, () => textFrame(frame(row))),
    event: (row) => kept(events, row, () => Buffer.from(event(row))),
  }
}

function kept<R extends object>(all: WeakMap<R, Buffer>, row: R, make: () => Buffer): Buffer {
  const found = all.get(row)
  if (found !== undefined) return found
  const made = make()
  all.set(row, made)
  return made
}

export function bundle<R extends object>(rows: readonly R[], words: Wording<R>): Bundle<R> {
  let [frames, events]: [Buffer[] | null, Buffer[] | null] = [null, null]
  return {
    rows,
    from: idOf(rows[0]),
    frames: () => (frames ??= packed(rows.map(words.frame))),
    events: () => (events ??= packed(rows.map(words.event))),
    with: (row) => bundle([...rows, row], words),
    only(wanted) {
      const left = rows.filter(wanted)
      return left.length === 0 ? null : bundle(left, words)
    },
  }
}

/** Small ones are put together, which is cheaper to write; of large ones there is no second copy. */
const SMALL_BYTES = 16_384

function packed(all: Buffer[]): Buffer[] {
  if (all.length === 1) return all
  const bytes = all.reduce((sum, { length }) => sum + length, 0)
  return bytes <= SMALL_BYTES ? [Buffer.concat(all)] : all
}

const idOf = (row: object | undefined): bigint =>
  row !== undefined && 'id' in row && typeof row.id === 'bigint' ? row.id : 0n
