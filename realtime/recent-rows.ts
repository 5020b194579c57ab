/** The rows that were passed on last, for those who have nearly caught up. */
export interface RecentRows<R> {
  add(row: R): void
  /** All rows after this one, in order; null where some are no longer kept. */
  after(id: bigint): readonly R[] | null
}

/** Of the largest payloads these are 16 MiB. */
const MAX_ROWS = 512

/** `start` is where the rows begin. */
export function createRecentRows<R extends { readonly id: bigint }>(start: bigint): RecentRows<R> {
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
