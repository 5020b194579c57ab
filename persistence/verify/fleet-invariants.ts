import {
  snapshotAmountSql,
  ACCOUNT_BALANCES_SQL,
  type DatabaseInvariant,
} from './database-invariant.ts'

/** Invariants of fleets. */

/** Unabsorbed messages. */
const OPEN_INBOX_SQL = `waiting as (select receiver, event->>'type' as type, event from inbox where absorbed_at is null)`

/** Invariants of pools, members and loans. */
export const FLEET_INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'F1',
    description: 'the pool of a fleet, with returns still in its inbox, equals the ledger',
    countSql: `select count(*) as n from actors where kind = 'fleet'`,
    violationsSql: `select s.account, s.balance as snapshot, coalesce(b.balance, 0) as ledger from (
        select 'fleet:' || a.id as account, ${snapshotAmountSql(`a.state->'context'->'cash'`)} + coalesce((
                 select sum(${snapshotAmountSql(`i.event->'amount'`)})::bigint from inbox i
                  where i.receiver = a.id and i.absorbed_at is null), 0) as balance
          from actors a where a.kind = 'fleet'
        union all
        select 'fleet:' || a.id || ':promo', ${snapshotAmountSql(`a.state->'context'->'promo'`)} + coalesce((
                 select sum(${snapshotAmountSql(`i.event->'promo'`)})::bigint from inbox i
                  where i.receiver = a.id and i.absorbed_at is null), 0)
          from actors a where a.kind = 'fleet') s
      full join (select * from (${ACCOUNT_BALANCES_SQL}) x where account like 'fleet:%') b using (account)
      where s.balance is distinct from coalesce(b.balance, 0)`,
  },
  {
    id: 'F2',
    description:
      'an agent is in at most one fleet, which counts it as a member, and draws on no other',
    countSql: 'select count(*) as n from fleet_members',
    // A former member counts until its fleet absorbs the departure; a new one draws only after its
    // fleet has absorbed the join.
    violationsSql: `with ${OPEN_INBOX_SQL}, counted as (select a.id as fleet_id, m.agent_id from actors a,
          jsonb_array_elements_text(a.state->'context'->'members') m(agent_id) where a.kind = 'fleet'
           and not exists (select from waiting w where w.receiver = a.id and w.type = 'LEAVE'
             and w.event->>'agentId' = m.agent_id)),
        drawing as (select a.id as agent_id, coalesce((select w.event->>'fleetId' from waiting w
            where w.receiver = a.id and w.type = 'JOIN_FLEET'), a.state->'context'->>'fleetId') as fleet_id
          from actors a where a.kind = 'agent')
      select coalesce(m.agent_id::text, c.agent_id) as agent_id, m.fleet_id, c.fleet_id as counted_in, null as draws_on
        from fleet_members m full join counted c
          on c.agent_id = m.agent_id::text and c.fleet_id = m.fleet_id::text
       where c.agent_id is null or m.agent_id is null
      union all
      select d.agent_id, m.fleet_id, null, d.fleet_id from drawing d
        left join fleet_members m on m.agent_id::text = d.agent_id
       where d.fleet_id is distinct from m.fleet_id::text`,
  },
  {
    id: 'F3',
    description:
      'credits lent by a fleet are held, spent or returned to it, and no more was returned',
    countSql: `select count(*) as n from transfers where kind = 'draw'`,
    violationsSql: `with ${OPEN_INBOX_SQL}, lent as (select fleet_id, agent_id, sum(amount)::bigint as amount from (
          select split_part(debit, ':', 2) as fleet_id, split_part(credit, ':', 2) as agent_id, amount_micros as amount
            from transfers where kind = 'draw'
          union all
          select split_part(credit, ':', 2), split_part(debit, ':', 2), -amount_micros
            from transfers where kind = 'draw_back') moved group by 1, 2),
        held as (select fleet_id, agent_id, sum(amount)::bigint as amount from (
          select l->>'fleetId' as fleet_id, a.id as agent_id, ${snapshotAmountSql(`l->'promo'`)} + ${snapshotAmountSql(`l->'cash'`)} as amount
            from actors a, jsonb_each(a.state->'context'->'holds') h, jsonb_array_elements(h.value->'loans') l
           where a.kind = 'agent'
          union all
          select event->>'fleetId', receiver, ${snapshotAmountSql(`event->'held'`)} from waiting
           where type = 'LEND' and event ? 'fleetId') loans group by 1, 2)
      select fleet_id, agent_id, l.amount as lent, h.amount as held
        from lent l full join held h using (fleet_id, agent_id)
       where coalesce(l.amount, 0) < coalesce(h.amount, 0)`,
  },
]
