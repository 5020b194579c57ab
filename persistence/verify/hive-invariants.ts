import {
  snapshotAmountSql,
  ACCOUNT_BALANCES_SQL,
  type DatabaseInvariant,
} from './database-invariant.ts'

/** Invariants of royalties, watches and shares of calls. */
export const HIVE_INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'H1',
    description:
      'each share of a call reaches its agent in one message, and a fork pays only its author and the tools',
    countSql: `select count(*) as n from transfers where kind = 'share'`,
    violationsSql: `with shared as (select call_id, split_part(credit, ':', 2) as receiver, sum(amount_micros)::bigint as amount
          from transfers where kind = 'share' and credit <> 'grants:promo' group by 1, 2),
        told as (select split_part(id, ':', 2) as call_id, receiver,
            sum(${snapshotAmountSql(`event->'promo'`)} + ${snapshotAmountSql(`event->'cash'`)})::bigint as amount
          from inbox where id like 'share:%' group by 1, 2)
      select coalesce(s.call_id::text, t.call_id) as call_id, s.receiver, s.amount as shared, t.amount as told, 'told' as why
        from shared s full join told t on t.call_id = s.call_id::text and t.receiver = s.receiver
       where s.amount is distinct from t.amount
      union all
      select f.call_id::text, f.author::text, s.amount, f.royalty_micros, 'fork'
        from strategy_forks f left join shared s on s.call_id = f.call_id and s.receiver = f.author::text
       where coalesce(s.amount, 0) <> f.royalty_micros or f.author = f.agent_id or exists (
         select from transfers t where t.call_id = f.call_id and t.credit = 'treasury:fees')`,
  },
  {
    id: 'R1',
    description:
      'a royalty is paid at most once, to its author and from the pool, which a quarter of the fees feeds at most',
    countSql: 'select count(*) as n from royalties where paid_by is not null',
    violationsSql: `with paid as (select paid_by::text as id, author::text as author, sum(amount_micros)::bigint as amount
          from royalties where paid_by is not null group by 1, 2),
        booked as (select memo as id, split_part(credit, ':', 2) as author, sum(amount_micros)::bigint as amount
          from transfers where kind = 'royalty' group by 1, 2)
      select coalesce(p.id, b.id) as id, p.amount, b.amount as booked, 'paid' as why
        from paid p full join booked b using (id, author) where p.amount is distinct from b.amount
      union all
      select r.entry_id::text, r.amount_micros, null, 'owed' from royalties r
       where r.reader = r.author or not exists (select from hive_reads h
         where h.entry_id = r.entry_id and h.reader = r.reader::text and h.day = r.day and h.has_key)
      union all
      select reader::text, count(*), null, 'day' from royalties group by reader, day having count(*) > 50
      union all
      select r.paid_by::text, r.amount_micros, null, 'cash' from royalties r join transfers t
          on t.memo = r.paid_by::text and t.kind = 'royalty'
       where r.promo <> (t.debit = 'royalty:pool:promo')
      union all
      select account, kept, coalesce(b.balance, 0), 'pool' from (
          select 'royalty:pool' as account, cash_micros as kept from royalty_pool
          union all select 'royalty:pool:promo', promo_micros from royalty_pool) p
        left join (${ACCOUNT_BALANCES_SQL}) b using (account) where p.kept <> coalesce(b.balance, 0)
      union all
      select 'royalty_feed', fed, fees, 'fed' from (
          select sum(amount_micros) filter (where kind = 'royalty_feed')::bigint as fed,
                 sum(amount_micros) filter (where kind = 'fee')::bigint as fees
            from transfers where kind in ('royalty_feed', 'fee')
          union all
          select sum(amount_micros) filter (where credit = 'royalty:pool')::bigint,
                 sum(amount_micros) filter (where kind = 'fee' and debit not like '%:promo')::bigint
            from transfers where kind in ('royalty_feed', 'fee')) f
       where 4 * coalesce(fed, 0) > coalesce(fees, 0)`,
  },
  {
    id: 'R2',
    description: 'the earned and paid royalties of an author are the sums of the royalty rows',
    countSql: 'select count(*) as n from royalties',
    violationsSql: `with owed as (select author, sum(amount_micros)::bigint as earned,
          coalesce(sum(amount_micros) filter (where paid_by is not null), 0)::bigint as paid
          from royalties group by author),
        summed as (select author, sum(earned_micros)::bigint as earned, sum(paid_micros)::bigint as paid
          from (select author, earned_micros, paid_micros from royalty_sums
            union all select author, earned_micros, paid_micros from royalty_changes) s group by author)
      select author::text, o.earned, s.earned as summed, o.paid, s.paid as summed_paid
        from owed o full join summed s using (author)
       where o.earned is distinct from s.earned or o.paid is distinct from s.paid`,
  },
  {
    id: 'R3',
    description: 'the royalties in cash of a read are at most the price of its call (decision 360)',
    countSql: 'select count(distinct call_id) as n from royalties where call_id is not null',
    violationsSql: `select r.call_id::text, r.owed, c.cost_micros as price from (
          select call_id, reader::text as reader, sum(amount_micros)::bigint as owed from royalties
           where call_id is not null and not promo group by 1, 2) r
        left join calls c on c.owner = r.reader and c.call_id = r.call_id
       where r.owed > coalesce(c.cost_micros, 0)`,
  },
  {
    id: 'W1',
    description: 'the active watches of an agent are those in its list, at most ten',
    countSql: 'select count(*) as n from hive_watches where ended_at is null',
    violationsSql: `with listed as (select a.aggregate_id as agent_id, w.id, (a.state->'context'->>'most')::int as most,
          jsonb_array_length(a.state->'context'->'watches') as n
          from actors a, jsonb_array_elements_text(a.state->'context'->'watches') w(id) where a.kind = 'watchList')
      select coalesce(l.agent_id, w.agent_id::text) as agent_id, coalesce(l.id, w.watch_id::text) as id, l.n
        from listed l full join (select * from hive_watches where ended_at is null) w
          on w.watch_id::text = l.id and w.agent_id::text = l.agent_id
       where l.id is null or w.watch_id is null or l.n > l.most
      union all
      select null, q.id::text, null from hive_queries q
       where not exists (select from hive_watches w where w.query_id = q.id and w.ended_at is null)`,
  },
]
