import { LIMITS } from '../core/limits.ts'
import type { Sql } from './data-plane.ts'

const SWEEP_BATCH_SIZE = 2_000

/**
 * What is forgotten, and when. Nothing of it is money: the ledger, the calls and the journals of all
 * aggregates but visitors are kept for good. Nodes may sweep at once; each takes what is free.
 */
export function createRetentionSweeper(sql: Sql) {
  /** Facts from the oldest on, so that what is left has no gap. */
  const events = async (): Promise<number> => {
    const gone = await sql`
      with oldest as materialized (
        select id, at from outbox order by id limit ${SWEEP_BATCH_SIZE} for update skip locked)
      delete from outbox o using oldest where o.id = oldest.id
        and oldest.at < now() - make_interval(days => ${LIMITS.eventDays})`
    return gone.count
  }

  /**
   * Visitors with everything that is known of them. A node that still has one in memory
   * reads it anew, since it has not heard of it for long, and begins anew like all others.
   */
  const visitors = async (): Promise<number> => {
    const [gone] = await sql<{ n: number }[]>`
      with idle as materialized (
        select a.id from aggregates a join journal j on j.aggregate_id = a.id and j.version = a.version
         where a.kind = 'visitor' and j.at < now() - make_interval(days => ${LIMITS.visitorDays})
         limit ${SWEEP_BATCH_SIZE} for update of a skip locked),
      commands as (delete from journal j using idle where j.aggregate_id = idle.id),
      snapshots as (delete from actors s using idle where s.aggregate_id = idle.id),
      fences as (delete from aggregates a using idle where a.id = idle.id returning a.id)
      select count(*)::int as n from fences`
    return gone?.n ?? 0
  }

  /** What was asked of vaults. */
  const questions = () => deleteOlderThan(sql, 'vault_queries', 'at', LIMITS.vaultQueryDays)

  /** What watches have found, from the oldest on; of watches that have ended too. */
  const matches = async (): Promise<number> => {
    const gone = await sql`
      with oldest as materialized (
        select id, at from hive_matches order by id limit ${SWEEP_BATCH_SIZE} for update skip locked)
      delete from hive_matches m using oldest where m.id = oldest.id
        and oldest.at < now() - make_interval(days => ${LIMITS.hiveMatchDays})`
    return gone.count
  }

  /** Watches that have ended, and what has ended them. */
  const watches = () => deleteOlderThan(sql, 'hive_watches', 'ended_at', LIMITS.hiveMatchDays)
  const watchEnds = () => deleteOlderThan(sql, 'hive_watch_ends', 'at', LIMITS.hiveMatchDays)

  /** What Backpacks have refused. */
  const refusals = () => deleteOlderThan(sql, 'backpack_refusals', 'last_at', LIMITS.refusalDays)

  const features = () => deleteOlderThan(sql, 'hive_features', 'ends_at', LIMITS.hiveFeatureDays)

  const drafts = async (): Promise<number> => {
    const gone = await sql`
      delete from drafts where at < now() - make_interval(secs => ${LIMITS.anonymousReplaySeconds})`
    return gone.count
  }

  /**
   * Letters that were replayed, and those whose delivery or fact is not kept any more. A timer's is
   * kept until it is replayed: nothing else knows of that work.
   */
  const letters = async (): Promise<number> => {
    const gone = await sql`
      delete from dead_letters l
       where replayed_at < now() - make_interval(days => ${LIMITS.deadLetterDays})
          or kind = 'webhook' and not exists (select from deliveries d where d.id = l.key)
          or kind = 'fact' and not exists (select from outbox o where o.id::text = l.key)`
    return gone.count
  }

  const bounces = async (): Promise<number> => {
    const gone = await sql`
      delete from mail_suppressions where reason = 'bounced'
         and at < now() - make_interval(days => ${LIMITS.mailBounceDays})`
    return gone.count
  }

  return {
    async sweep(): Promise<void> {
      while ((await sweepSettlerTransactions(sql)) === SWEEP_BATCH_SIZE);
      while ((await events()) === SWEEP_BATCH_SIZE);
      while ((await visitors()) === SWEEP_BATCH_SIZE);
      while ((await questions()) === SWEEP_BATCH_SIZE);
      while ((await matches()) === SWEEP_BATCH_SIZE);
      while ((await watches()) === SWEEP_BATCH_SIZE);
      while ((await watchEnds()) === SWEEP_BATCH_SIZE);
      while ((await refusals()) === SWEEP_BATCH_SIZE);
      await features()
      await sweepPromotionClaims(sql)
      await drafts()
      await bounces()
      await letters()
      await sweepByteCounters(sql)
    },
  }
}

/** What calls took for a moment to promote it; what they promoted is told elsewhere, for good. */
async function sweepPromotionClaims(sql: Sql): Promise<void> {
  await sql`delete from vault_promotion_claims where until < now()`
}

/** What was counted of days that are over. */
async function sweepByteCounters(sql: Sql): Promise<void> {
  await sql`delete from kept_bytes where day < (now() at time zone 'UTC')::date - 1`
  await sql`delete from stored_bytes where day < (now() at time zone 'UTC')::date - 1`
}

/** Rows whose instant in that column is more than so many days past; a batch at most. */
async function deleteOlderThan(
  sql: Sql,
  table: string,
  column: string,
  days: number,
): Promise<number> {
  const gone = await sql`
    delete from ${sql(table)} where ctid = any(array(
      select ctid from ${sql(table)}
       where ${sql(column)} < now() - make_interval(days => ${days}) limit ${SWEEP_BATCH_SIZE}))`
  return gone.count
}

/**
 * Transactions of our keys that a block has answered, all that were signed for a nonce at once, with
 * what they carried. Their ids tell their age. What is still open is left alone with its attempts.
 */
async function sweepSettlerTransactions(sql: Sql): Promise<number> {
  const [gone] = await sql<{ n: number }[]>`
    with old as materialized (
      select t.chain, t.settler, t.nonce from settler_txs t
       where t.id < (lpad(to_hex((extract(epoch from now() - make_interval(days => ${LIMITS.settlerDays}))
               * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
         and t.replaced_by is null and t.state <> 'signed'
         and not exists (select from settler_carries c
              where (c.chain, c.settler, c.nonce) = (t.chain, t.settler, t.nonce) and (
                exists (select from actors a where a.kind = 'settlement' and not a.at_rest and a.id = c.purpose)
                or exists (select from sweeps s where s.state = 'open' and 'sweep:' || s.id = c.purpose)
                or exists (select from unfinal_moves m where m.ref = c.purpose)))
       order by t.id limit ${SWEEP_BATCH_SIZE}),
    carried as (delete from settler_carries c using old
      where (c.chain, c.settler, c.nonce) = (old.chain, old.settler, old.nonce)),
    signed as (delete from settler_txs t using old
      where (t.chain, t.settler, t.nonce) = (old.chain, old.settler, old.nonce))
    select count(*)::int as n from old`
  return gone?.n ?? 0
}
