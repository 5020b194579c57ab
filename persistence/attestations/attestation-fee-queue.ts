import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'

/** Fees that are committed and wait for their leaves. A trigger of the ledger queues them. */

/** Fees that one transaction takes, and rows of the queue that it reads. */
const MAX_BATCH_LEAVES = 5_000
const MAX_BATCH_QUEUE_ROWS = 5_000

/** A movement into or out of the fees. */
export interface FeeRow {
  id: string
  call_id: string | null
  kind: string
  amount_micros: bigint
  at: Date
}

export interface QueuedFees {
  readonly fees: readonly FeeRow[]
  readonly at: Date
  /** The oldest transaction that may still queue fees. */
  readonly oldest: string
  /** Whether more fees may wait. */
  readonly more: boolean
}

/**
 * Removes fees from the queue, the oldest first, in the transaction that appends them. `from` is `oldest` of the last
 * time. One statement, so that its snapshot is that of `oldest`.
 */
export async function takeQueuedFees(tx: DatabaseTransaction, from: string): Promise<QueuedFees> {
  const rows = await tx<
    (FeeRow & Omit<QueuedFees, 'fees' | 'at'> & { read_at: Date; id: string | null })[]
  >`
    with waiting as (
      select ctid, sum(cardinality(ledger_ids)) over (order by written, ctid) as fees,
             row_number() over (order by written, ctid) as place
        from (select ctid, written, ledger_ids from unattested_fees where written >= ${from}::text::xid8
               order by written, ctid limit ${MAX_BATCH_QUEUE_ROWS}) q),
    taken as (
      delete from unattested_fees where ctid = any(array(
        select ctid from waiting where fees <= ${MAX_BATCH_LEAVES} or place = 1))
      returning ledger_ids, call_ids, kinds, amounts, times)
    select clock_timestamp() as read_at, pg_snapshot_xmin(pg_current_snapshot())::text as oldest, w.more, f.*
      from (select count(*) = ${MAX_BATCH_QUEUE_ROWS} or coalesce(max(fees), 0) > ${MAX_BATCH_LEAVES} as more
              from waiting) w
      left join lateral (
        select f.* from taken, unnest(ledger_ids, call_ids, kinds, amounts, times)
          f(id, call_id, kind, amount_micros, at)) f on true`
  const [first] = rows
  if (first === undefined) throw new Error('no snapshot')
  const { read_at: at, oldest, more } = first
  return { fees: rows.filter(({ id }) => id !== null), at, oldest, more }
}
