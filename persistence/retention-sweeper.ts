import { LIMITS } from '../core/limits.ts'
import type { Sql } from './start-postgres-and-redis.ts'

/** Deletes expired rows. */

const SWEEP_BATCH_SIZE = 2_000
/** Later heads of a day are kept this long; a trigger refuses less. */
const HEAD_DAYS = 8
/** Figures of tools span at most eight days. */
const SUMMED_DAYS = 9

/**
 * Deletes rows after their retention period. None of them is money: ledger, calls and journals of
 * all aggregates but visitors are kept forever. Nodes may run it at once; each takes unlocked rows.
 */
export function createRetentionSweeper(sql: Sql) {
  /** Deletes the oldest events first, so that the rest has no gap. */
  const events = async (): Promise<number> => {
    const gone = await sql`
      with oldest as materialized (
        select id, at from outbox order by id limit ${SWEEP_BATCH_SIZE} for update skip locked)
      delete from outbox o using oldest where o.id = oldest.id
        and oldest.at < now() - make_interval(days => ${LIMITS.eventDays})`
    return gone.count
  }

  /**
   * Deletes visitors with all their rows. A node that still holds one in memory reloads it, and the
   * visitor starts anew.
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

  /** Ends agents whose last cursor is older than any event. */
  const listeners = () => deleteOlderThan(sql, 'event_listeners', 'until', 0)

  /** Deletes queries of vaults. */
  const questions = () => deleteOlderThan(sql, 'vault_queries', 'at', LIMITS.vaultQueryDays)

  /** Deletes matches of watches, oldest first, also of ended watches. */
  const matches = async (): Promise<number> => {
    const gone = await sql`
      with oldest as materialized (
        select id, at from hive_matches order by id limit ${SWEEP_BATCH_SIZE} for update skip locked)
      delete from hive_matches m using oldest where m.id = oldest.id
        and oldest.at < now() - make_interval(days => ${LIMITS.hiveMatchDays})`
    return gone.count
  }

  /** Deletes refunds of community tools. Charged calls stay: `gas verify` checks their shares. */
  const builderRefunds = async (): Promise<number> => {
    const gone = await sql`
      with oldest as materialized (
        select call_id from community_tool_calls
         where not ok and at < now() - make_interval(days => ${LIMITS.communityRefundDays})
         limit ${SWEEP_BATCH_SIZE} for update skip locked)
      delete from community_tool_calls c using oldest where c.call_id = oldest.call_id`
    return gone.count
  }

  /** Deletes ended watches and what ended them. */
  const watches = () => deleteOlderThan(sql, 'hive_watches', 'ended_at', LIMITS.hiveMatchDays)
  const watchEnds = () => deleteOlderThan(sql, 'hive_watch_closures', 'at', LIMITS.hiveMatchDays)

  /** Deletes answers whose payment has ended; a paid one is in the row of its call. */
  const withheldAnswers = async (): Promise<number> => {
    const gone = await sql`
      delete from withheld_answers where settlement = any(array(
        select w.settlement from withheld_answers w join settlements s on s.id = w.settlement
          join actors a on a.kind = 'settlement' and a.id = s.id and a.aggregate_id = s.payer
         where a.archived and w.at < now() - make_interval(days => ${LIMITS.withheldAnswerDays})
         limit ${SWEEP_BATCH_SIZE}))`
    return gone.count
  }

  /** Deletes rejections of Backpacks. */
  const refusals = () => deleteOlderThan(sql, 'backpack_refusals', 'last_at', LIMITS.refusalDays)

  /** Deletes explanations of refusals. */
  const explained = () => deleteOlderThan(sql, 'refusals', 'last_at', LIMITS.explainedRefusalDays)

  const features = () => deleteOlderThan(sql, 'hive_features', 'ends_at', LIMITS.hiveFeatureDays)

  /** Deletes old probes, and listings that nobody has seen for days. */
  const probes = () => deleteOlderThan(sql, 'x402_api_probes', 'at', LIMITS.apiHistoryDays)
  const hostProbes = () => deleteOlderThan(sql, 'x402_host_probes', 'at', 1)
  const apis = () => deleteOlderThan(sql, 'x402_apis', 'last_seen_at', LIMITS.apiUnseenDays)

  /** Deletes all signed heads of past days but the last of each; the roots of the others follow from the leaves. */
  const heads = async (): Promise<number> => {
    const gone = await sql`
      delete from attestation_heads h where tree_size = any(array(
        select tree_size from (
          select tree_size, signed_at, lead(signed_at) over (order by tree_size) as next
            from attestation_heads where signed_at < now() - make_interval(days => ${HEAD_DAYS})) old
         where (next at time zone 'UTC')::date = (signed_at at time zone 'UTC')::date limit ${SWEEP_BATCH_SIZE}))`
    return gone.count
  }

  /** Deletes sums of hours that no figure reads any more. */
  const toolHours = () => deleteOlderThan(sql, 'tool_hours', 'hour', SUMMED_DAYS)
  const toolPayers = () => deleteOlderThan(sql, 'tool_payers', 'hour', SUMMED_DAYS)
  const soldHours = () => deleteOlderThan(sql, 'community_tool_hours', 'hour', SUMMED_DAYS)
  const payers = () => deleteOlderThan(sql, 'community_tool_payers', 'last_at', SUMMED_DAYS)

  const drafts = async (): Promise<number> => {
    const gone = await sql`
      delete from idempotency_drafts where at < now() - make_interval(secs => ${LIMITS.anonymousReplaySeconds})`
    return gone.count
  }

  /**
   * Deletes replayed letters, and those whose delivery or event is gone. A timer's letter stays
   * until it is replayed: nothing else records that work.
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
      while ((await listeners()) === SWEEP_BATCH_SIZE);
      while ((await visitors()) === SWEEP_BATCH_SIZE);
      while ((await questions()) === SWEEP_BATCH_SIZE);
      while ((await matches()) === SWEEP_BATCH_SIZE);
      while ((await watches()) === SWEEP_BATCH_SIZE);
      while ((await watchEnds()) === SWEEP_BATCH_SIZE);
      while ((await builderRefunds()) === SWEEP_BATCH_SIZE);
      while ((await withheldAnswers()) === SWEEP_BATCH_SIZE);
      while ((await refusals()) === SWEEP_BATCH_SIZE);
      while ((await explained()) === SWEEP_BATCH_SIZE);
      while ((await probes()) === SWEEP_BATCH_SIZE);
      while ((await hostProbes()) === SWEEP_BATCH_SIZE);
      while ((await apis()) === SWEEP_BATCH_SIZE);
      while ((await heads()) === SWEEP_BATCH_SIZE);
      while ((await toolHours()) === SWEEP_BATCH_SIZE);
      while ((await toolPayers()) === SWEEP_BATCH_SIZE);
      while ((await soldHours()) === SWEEP_BATCH_SIZE);
      while ((await payers()) === SWEEP_BATCH_SIZE);
      await features()
      await sweepPromotionClaims(sql)
      await drafts()
      await bounces()
      await letters()
      await sweepByteCounters(sql)
    },
  }
}

/** Deletes claims of calls that were promoting something; the promotions are stored elsewhere. */
async function sweepPromotionClaims(sql: Sql): Promise<void> {
  await sql`delete from vault_promotion_claims where until < now()`
}

/** Deletes byte counters of past days. */
async function sweepByteCounters(sql: Sql): Promise<void> {
  await sql`delete from daily_reply_bytes where day < (now() at time zone 'UTC')::date - 1`
  await sql`delete from daily_storage_bytes where day < (now() at time zone 'UTC')::date - 1`
}

/** Deletes rows older than a number of days by this column; at most one batch. */
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
 * Deletes settled transactions of our keys, all that were signed for a nonce at once, with their
 * purposes. Their ids contain their age. Open transactions keep all attempts.
 */
async function sweepSettlerTransactions(sql: Sql): Promise<number> {
  const [gone] = await sql<{ n: number }[]>`
    with old as materialized (
      select t.chain, t.settler, t.nonce from settler_txs t
       where t.id < (lpad(to_hex((extract(epoch from now() - make_interval(days => ${LIMITS.settlerDays}))
               * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
         and t.replaced_by is null and t.state <> 'signed'
         and not exists (select from settler_tx_settlements c
              where (c.chain, c.settler, c.nonce) = (t.chain, t.settler, t.nonce) and (
                exists (select from actors a where a.kind = 'settlement' and not a.archived and a.id = c.purpose)
                or exists (select from sweeps s where s.state = 'open' and 'sweep:' || s.id = c.purpose)
                or exists (select from unfinalized_transfers m where m.ref = c.purpose)))
       order by t.id limit ${SWEEP_BATCH_SIZE}),
    carried as (delete from settler_tx_settlements c using old
      where (c.chain, c.settler, c.nonce) = (old.chain, old.settler, old.nonce)),
    signed as (delete from settler_txs t using old
      where (t.chain, t.settler, t.nonce) = (old.chain, old.settler, old.nonce))
    select count(*)::int as n from old`
  return gone?.n ?? 0
}
