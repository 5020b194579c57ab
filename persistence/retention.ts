import { LIMITS } from '../core/limits.ts'
import type { Sql } from './plane.ts'

const BATCH = 2_000

/**
 * What is forgotten, and when. Nothing of it is money: the ledger, the calls and the journals of all
 * aggregates but visitors are kept for good. Nodes may sweep at once; each takes what is free.
 */
export function retention(sql: Sql) {
  /** Facts from the oldest on, so that what is left has no gap. */
  const events = async (): Promise<number> => {
    const gone = await sql`
      with oldest as materialized (
        select id, at from outbox order by id limit ${BATCH} for update skip locked)
      delete from outbox o using oldest where o.id = oldest.id
        and oldest.at < now() - make_interval(days => ${LIMITS.eventDays})`
    return gone.count
  }

  /**
   * Visitors with everything that is known of them. A node that still has one in memory loses the
   * version check of its next commit, and begins anew like all others.
   */
  const visitors = async (): Promise<number> => {
    const [gone] = await sql<{ n: number }[]>`
      with idle as materialized (
        select a.id from aggregates a join journal j on j.aggregate_id = a.id and j.version = a.version
         where a.kind = 'visitor' and j.at < now() - make_interval(days => ${LIMITS.visitorDays})
         limit ${BATCH} for update of a skip locked),
      commands as (delete from journal j using idle where j.aggregate_id = idle.id),
      snapshots as (delete from actors s using idle where s.aggregate_id = idle.id),
      fences as (delete from aggregates a using idle where a.id = idle.id returning a.id)
      select count(*)::int as n from fences`
    return gone?.n ?? 0
  }

  const drafts = async (): Promise<number> => {
    const gone = await sql`
      delete from drafts where at < now() - make_interval(hours => ${LIMITS.idempotencyHours})`
    return gone.count
  }

  return {
    async sweep(): Promise<void> {
      while ((await events()) === BATCH);
      while ((await visitors()) === BATCH);
      await drafts()
    },
  }
}
