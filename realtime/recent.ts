/** The rows that were passed on last, for those who have nearly caught up. */
export interface Recent<R> {
  add(row: R): void
  /** All rows after this one, in order; null where some are no longer kept. */
  after(id: bigint): readonly R[] | null
}

/** Of the largest payloads these are 16 MiB. */
const MOST = 512

/** `start` is where the rows begin. */
export function recentRows<R extends { readonly id: bigint }>(start: bigint): Recent<R> {
  const rows: R[] = []
  let dropped = start
  return {
    add(row) {
      rows.push(row)
      if (rows.length <= MOST) return
      dropped = rows[MOST / 2 - 1]?.id ?? dropped
      rows.splice(0, MOST / 2)
    },
    after(id) {
      if (id < dropped) return null
      const first = rows.findLastIndex((row) => row.id <= id) + 1
      return rows.slice(first)
    },
  }
}
