-- Promotional credits stay apart from cash wherever they are, and what takes them from one agent for
-- another is written down with the permission it had.

-- Movements of promotional credits from one agent for another, which PROMO_TRANSFERABLE has allowed.
create table promo_crossings (
  transfer_id uuid not null,
  at timestamptz not null
);
create unique index promo_crossings_by_transfer on promo_crossings (transfer_id);

-- Credits that the operator gave, one row for each (gas grant). The id makes a repetition one grant.
create table operator_grants (
  grant_id uuid primary key,
  agent_id uuid not null,
  amount_micros bigint not null,
  note text not null,
  granted_by text not null,
  at timestamptz not null
);
create index operator_grants_by_agent on operator_grants (agent_id, grant_id);

insert into stageable values ('promo_crossings'), ('operator_grants');

-- What calls held as they were: its promotional part has an account of its own from now on. It is in the
-- snapshot of the agent, or on its way to it from the pool of its fleet.
insert into transfers (id, owner, debit, credit, amount_micros, kind, memo, at)
  select gen_random_uuid(), s.agent, 'agent:' || s.agent || ':held', 'agent:' || s.agent || ':held:promo',
         s.amount, 'hold', 'migration 0039', clock_timestamp()
    from (select agent, sum(amount)::bigint as amount from (
        select a.id as agent, coalesce((h.value->'promo'->>'$n')::bigint, 0) as amount
          from actors a, jsonb_each(a.state->'context'->'holds') h
         where a.kind = 'agent' and jsonb_typeof(a.state->'context'->'holds') = 'object'
        union all
        select i.receiver, coalesce((i.event->'bonus'->>'$n')::bigint, 0) from inbox i
         where i.receiver_kind = 'agent' and i.event->>'type' = 'LEND' and i.absorbed_at is null) held
      group by agent) s
   where s.amount > 0;

-- What referrers were owed of calls that were paid with promotional credits returns to the grants. What a
-- hold paid may have been either, so it counts as promotional; what was paid out already stays paid.
insert into transfers (id, owner, debit, credit, amount_micros, kind, memo, at)
  select gen_random_uuid(), split_part(r.account, ':', 2), r.account, 'grants:promo',
         r.balance - greatest(0, least(r.balance, r.in_cash - r.paid)), 'charge', 'migration 0039', clock_timestamp()
    from (select account, sum(amount)::bigint as balance, coalesce(sum(amount) filter (where cash), 0)::bigint as in_cash,
               coalesce(-sum(amount) filter (where amount < 0), 0)::bigint as paid
            from (select credit as account, amount_micros as amount, debit like 'agent:%:cash' or debit like 'owed:%' as cash
                    from transfers where credit like 'referral:%'
                  union all
                  select debit, -amount_micros, false from transfers where debit like 'referral:%') m
           group by account) r
   where r.balance > greatest(0, least(r.balance, r.in_cash - r.paid));

-- Movements of before, in which both kinds of credits shared an account: their sums count, and the rules
-- about single movements do not judge them.
create table transfers_before_apart as select id from transfers;
create unique index transfers_before_apart_by_id on transfers_before_apart (id);

-- A read is owed in cash if all of its call was paid with cash. Other reads are owed in promotional
-- credits, and only where those may reach other agents, as whoever staged the read has said.
alter table hive_reads add column owes_promo boolean;
drop index transfers_cash_fees;
create index transfers_paid_in_cash on transfers (call_id) include (amount_micros)
  where kind in ('charge', 'fee', 'share')
    and (debit like 'agent:%:cash' or debit like 'agent:%:held' or debit like 'owed:%');

create or replace function owe_royalties() returns trigger language plpgsql as $$
begin
  insert into royalties (entry_id, reader, day, author, amount_micros, promo, at)
    select o.entry_id, o.reader, o.day, o.author, 20000, not o.cash, o.at from (
      select n.*, row_number() over (partition by n.reader, n.day order by n.at, n.place, n.entry_id) as nth
        from (
          select distinct on (r.entry_id, r.reader, r.day)
                 r.entry_id, r.reader::uuid as reader, r.day, e.agent_id as author, r.place, r.at, r.owes_promo,
                 exists (select from calls c where c.owner = r.reader and c.call_id = r.call_id
                    and c.at > r.at - interval '1 day' and c.cost_micros > 0 and c.cost_micros <= (
                      select sum(t.amount_micros) from transfers t where t.call_id = c.call_id
                         and t.kind in ('charge', 'fee', 'share')
                         and (t.debit like 'agent:%:cash' or t.debit like 'agent:%:held' or t.debit like 'owed:%'))) as cash
            from fresh r join hive_entries e on e.id = r.entry_id
           where r.has_key and e.is_public and e.agent_id::text <> r.reader and coalesce(r.place, 1) <= 3
             and exists (select from aggregates a where a.id = e.agent_id::text and a.kind = 'agent')
             and not shares_fleet(r.reader::uuid, e.agent_id)
             and not exists (select from royalties k
                   where k.entry_id = r.entry_id and k.reader = r.reader::uuid and k.day = r.day)
           order by r.entry_id, r.reader, r.day, r.at) n
       where n.cash or n.owes_promo) o
     where o.nth + (select count(*) from royalties k where k.reader = o.reader and k.day = o.day) <= 50
    on conflict do nothing;
  return null;
end $$;
