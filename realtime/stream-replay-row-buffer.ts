/** The newest delivered rows, for streams that have nearly caught up. */
export interface StreamReplayRowBuffer<R> {
  add(row: R): void
  /** All rows after this id, in order; null if some are no longer cached. */
  after(id: bigint): readonly R[] | null
}

/** At most 16 MiB with the largest payloads. */
const MAX_ROWS = 512

/** `start` is the id before the first row. */
export function createStreamReplayRowBuffer<R extends { readonly id: bigint }>(
  start: bigint,
): StreamReplayRowBuffer<R> {
  const rows: R[] = []
  let dropped = start
  return {
    add(row) {
      rows.push(row)
      if (rows.length <= MAX_ROWS) return
      dropped = rows[MAX_ROWS / 2 - 1]?.id ?? dropped
      rows.splice(0, MAX_ROWS / 2)
    },
    after(id) {
      if (id < dropped) return null
      const first = rows.findLastIndex((row) => row.id <= id) + 1
      return rows.slice(first)
    },
  }
}
