import {
  snapshotAmountSql,
  ACCOUNT_BALANCES_SQL,
  type DatabaseInvariant,
} from './database-invariant.ts'

/** Invariants of task passes. */

/** Open passes as their agents' states have them. */
const OPEN_PASSES_SQL = `open as (select a.aggregate_id as agent_id, p.key as pass_id, (p.value->>'left')::int as free,
    (p.value->>'held')::int as held, (p.value->>'calls')::int as calls, ${snapshotAmountSql(`p.value->'price'`)} as price,
    ${snapshotAmountSql(`p.value->'promo'`)} as promo, ${snapshotAmountSql(`p.value->'cash'`)} as cash
  from actors a, jsonb_each(a.state->'context'->'passes') p where a.kind = 'taskPasses')`

export const TASK_PASS_INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'T1',
    description: 'the account of a task pass is its calls left times its price a call',
    countSql: 'select count(*) as n from task_passes',
    violationsSql: `with ${OPEN_PASSES_SQL},
        said as (select 'pass:' || pass_id as account, cash as amount from open
          union all select 'pass:' || pass_id || ':promo', promo from open),
        booked as (select * from (${ACCOUNT_BALANCES_SQL}) b where account like 'pass:%')
      select account, s.amount as said, b.balance as booked from said s full join booked b using (account)
       where coalesce(s.amount, 0) <> coalesce(b.balance, 0)
      union all
      select pass_id, promo + cash, (free + held) * price from open
       where promo + cash <> (free + held) * price or free < 0 or held < 0`,
  },
  {
    id: 'T2',
    description:
      'a task pass is paid once by its agent, each call takes its price once, and it pays no more calls than were bought',
    countSql: 'select count(*) as n from task_passes',
    // A call is paid by one pass: its movements name no other.
    violationsSql: `with moves as (select split_part(debit, ':', 2) as pass_id, kind, call_id, owner, amount_micros as amount
          from transfers where debit like 'pass:%'),
        paid as (select split_part(credit, ':', 2) as pass_id, min(owner) as owner,
            sum(amount_micros) filter (where credit like '%:promo') as promo,
            sum(amount_micros) filter (where credit not like '%:promo') as cash
          from transfers where kind = 'pass' group by 1),
        uses as (select pass_id, call_id, sum(amount)::bigint as amount from moves
          where kind in ('charge', 'fee', 'share') group by 1, 2),
        sums as (select pass_id, count(*) as uses from uses group by 1),
        gone as (select pass_id, coalesce(sum(amount) filter (where kind in ('pass_back', 'breakage')), 0)::bigint as amount
          from moves group by 1)
      select coalesce(t.pass_id::text, p.pass_id) as pass_id, t.calls, s.uses, p.promo, p.cash from task_passes t
        full join paid p on p.pass_id = t.pass_id::text
        left join sums s on s.pass_id = t.pass_id::text left join gone g on g.pass_id = t.pass_id::text
       where t.promo_micros is distinct from coalesce(p.promo, 0)::bigint
          or t.cash_micros is distinct from coalesce(p.cash, 0)::bigint
          or p.owner is distinct from t.agent_id::text
          or coalesce(s.uses, 0) + coalesce(g.amount, 0) / t.price_micros > t.calls
      union all
      select u.pass_id, null, null, u.amount, t.price_micros from uses u
        left join task_passes t on t.pass_id::text = u.pass_id where u.amount is distinct from t.price_micros`,
  },
  {
    id: 'T3',
    description:
      'a call on the rail pass is one that a pass has paid, and held calls of a pass are holds of its agent',
    countSql: `select count(*) as n from calls where rail = 'pass'`,
    violationsSql: `with ${OPEN_PASSES_SQL},
        payers as (select distinct call_id from transfers
          where debit like 'pass:%' and kind in ('charge', 'fee', 'share')),
        holds as (select a.id as agent_id, h.value->>'passId' as pass_id, count(*) as n
          from actors a, jsonb_each(a.state->'context'->'holds') h
         where a.kind = 'agent' and h.value->>'passId' is not null group by 1, 2)
      select coalesce(c.call_id, p.call_id)::text as id, c.rail, c.cost_micros
        from (select * from calls where rail = 'pass' and cost_micros > 0) c full join payers p using (call_id)
       where c.call_id is null or p.call_id is null
      union all
      select coalesce(o.pass_id, h.pass_id), o.held::text, h.n from open o full join holds h using (agent_id, pass_id)
       where coalesce(o.held, 0) <> coalesce(h.n, 0)`,
  },
]
