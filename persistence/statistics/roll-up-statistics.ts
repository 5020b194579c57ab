import { CALLER_ERROR_CODES } from '../../core/errors.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { MAX_COMMIT_DELAY, readEarliestUnseenInsert } from './earliest-unseen-insert.ts'
import { insertReachedMilestones } from './milestone-store.ts'

/** Brings the sums over the ledger, the call log and the calls of community tools up to date. */

/** `late_rows` has the transactions of rows that are inserted later than this after their time stamp. */
const MAX_UNRECORDED_DELAY = '2 seconds'
/** The clock of the database may be set back this far, or that of a standby that takes over be behind. */
const MAX_CLOCK_STEP = '3 seconds'
/** The owner of a call without a key that a wallet paid: its CAIP-10 account. */
const WALLET_PATTERN = '%:%:%'
/** Minutes are kept this long; the window is 24 hours. */
const MINUTES_KEPT = '26 hours'

/** Adds committed rows to the sums, each once. Concurrent nodes wait for each other. */
export const rollUpStatistics = (sql: Sql) =>
  sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('statistics'))`
    await resetAfterRestore(tx)
    await insertReachedMilestones(tx, await addNewRows(tx, await readEarliestUnseenInsert(tx)))
    await deleteSummedLateRows(tx)
    await tx`delete from statistics_minutes where minute < now() - ${MINUTES_KEPT}::interval`
  })

/**
 * A restored database has new transaction ids, so its rows are summed again from the start. Restored into the
 * same cluster it has tables with other ids.
 */
async function resetAfterRestore(tx: DatabaseTransaction): Promise<void> {
  const [moved] = await tx`
    with here as (select system_identifier || ' ' || 'ledger'::regclass::oid as name
                    from pg_control_system())
    update statistics_cursor set snapshot = '3:3:', until = '-infinity', cluster = here.name,
           volume_micros = 0
      from here where cluster <> here.name returning 1`
  if (moved === undefined) return
  await tx`delete from late_rows`
  await tx`delete from agent_scores`
  await tx`delete from statistics_minutes`
  await tx`delete from tool_hours`
  await tx`delete from tool_payers`
  await tx`delete from community_tool_hours`
  await tx`delete from community_tool_payers`
}

/** The sums include all rows of the transactions that the stored snapshot sees. */
const deleteSummedLateRows = (tx: DatabaseTransaction) => tx`
  delete from late_rows l using statistics_cursor c where pg_visible_in_snapshot(l.written, c.snapshot)`

/**
 * One statement, so that the rows it reads and the snapshot it stores are the same. A call is new when both its
 * commit and its row are: a change makes a new row of an old call, and a restored row has the transaction id of
 * another cluster. Returns the agents of the new public rows.
 *
 * A new row was inserted at or after `until` of the last pass (`readEarliestUnseenInsert`). So its time stamp is at
 * most `MAX_UNRECORDED_DELAY` before `until`, or its transaction is in `late_rows`. `nextUntil` must be read before
 * this statement takes its snapshot. If the clock is behind `until` it was set back; the rows since then are not
 * older than the last pass, a minute or so.
 */
async function addNewRows(tx: DatabaseTransaction, nextUntil: string): Promise<string[]> {
  const rows = await tx<{ agent_id: string }[]>`
    with since as (
      select c.snapshot, least(
               c.until - ${MAX_UNRECORDED_DELAY}::interval - ${MAX_CLOCK_STEP}::interval,
               case when c.until > statement_timestamp()
                 then statement_timestamp() - ${MAX_COMMIT_DELAY}::interval end,
               (select min(l.at) from late_rows l
                 where not pg_visible_in_snapshot(l.written, c.snapshot))) as at
        from statistics_cursor c),
    moved as (
      select l.owner, l.call_id, l.at, l.amount_micros as amount,
             case when l.kind = 'price' then l.amount_micros - l.promo_micros
                  when l.credit in ('platform:tools', 'treasury:fees') and l.debit not like '%:promo'
                    then l.amount_micros
                  else 0 end as cash
        from ledger l, since
       where l.at >= since.at and l.kind in ('price', 'charge', 'fee', 'share')
         and not was_visible(l.xmin, since.snapshot)),
    scored as (
      insert into agent_scores as s
        select m.owner, sum(m.cash)::bigint from moved m
         where m.owner ~ '^[0-9a-f]{8}-[0-9a-f-]{27}$'
           and not exists (select from calls c
                            where c.owner = m.owner and c.call_id = m.call_id and c.ghost)
         group by 1 having sum(m.cash) > 0 order by 1
      on conflict (agent_id) do update set cash_micros = s.cash_micros + excluded.cash_micros
      returning agent_id),
    new_calls as materialized (
      select c.at, c.owner, c.tool, c.ghost, c.status, c.ms,
             c.error_code is null or c.error_code <> all(${CALLER_ERROR_CODES as string[]}) as judged
        from calls c, since
       where c.at >= since.at and c.tool is not null
         and not pg_visible_in_snapshot(c.written, since.snapshot)
         and not was_visible(c.xmin, since.snapshot)),
    used as (
      insert into tool_hours as h
        select tool, date_trunc('hour', at), count(*), count(*) filter (where status = 'ok'),
               count(*) filter (where judged), coalesce(sum(ms) filter (where judged), 0)
          from new_calls where not ghost group by 1, 2 order by 1, 2
      on conflict (tool, hour) do update set calls = h.calls + excluded.calls, ok = h.ok + excluded.ok,
        judged = h.judged + excluded.judged, judged_ms = h.judged_ms + excluded.judged_ms),
    paid as (
      insert into tool_payers
        select distinct tool, date_trunc('hour', at), owner
          from new_calls c where not ghost and status = 'ok'
           and (owner like ${WALLET_PATTERN}
                or exists (select from scored s where s.agent_id = c.owner)
                or exists (select from agent_scores s where s.agent_id = c.owner))
         order by 1, 2, 3
      on conflict do nothing),
    forwarded as materialized (
      select c.slug, t.measured_from as since, c.payer, c.ok, c.at
        from since, community_tool_calls c join community_tools t using (slug)
       where c.at >= since.at and c.counted and c.at >= t.measured_from
         and not was_visible(c.xmin, since.snapshot)),
    sold as (
      insert into community_tool_hours as h
        select slug, since, date_trunc('hour', at), count(*), count(*) filter (where ok)
          from forwarded group by 1, 2, 3 order by 1, 2, 3
      on conflict (slug, since, hour) do update set calls = h.calls + excluded.calls, ok = h.ok + excluded.ok),
    served as (
      insert into community_tool_payers as p
        select slug, since, payer, max(at) from forwarded where ok group by 1, 2, 3 order by 1, 2, 3
      on conflict (slug, since, payer) do update set last_at = greatest(p.last_at, excluded.last_at)),
    called as (
      select date_trunc('minute', at) as minute, count(*) as calls,
             count(*) filter (where status = 'failed') as failed, 0 as amount
        from new_calls where at > now() - ${MINUTES_KEPT}::interval group by 1),
    counted as (
      insert into statistics_minutes as s
        select minute, sum(calls), sum(failed), sum(amount)::bigint from (
          select minute, calls, failed, amount from called
          union all
          select date_trunc('minute', at), 0, 0, sum(amount) from moved
           where at > now() - ${MINUTES_KEPT}::interval group by 1) x
         group by 1 order by 1
      on conflict (minute) do update set calls = s.calls + excluded.calls,
        failed = s.failed + excluded.failed, volume_micros = s.volume_micros + excluded.volume_micros),
    advanced as (
      update statistics_cursor set snapshot = pg_current_snapshot(),
             until = ${nextUntil}::text::timestamptz,
             volume_micros = volume_micros + (select coalesce(sum(amount), 0) from moved))
    select agent_id from scored
    union
    select owner from new_calls
     where not ghost and status = 'ok' and at > now() - ${MINUTES_KEPT}::interval
       and owner ~ '^[0-9a-f]{8}-[0-9a-f-]{27}$'`
  return rows.map((row) => row.agent_id)
}
