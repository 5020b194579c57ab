-- Royalties for reads of Hive entries, the pool that pays them, and strategies with their forks.

-- A royalty: one a reader, entry and UTC day (decision 24) over all nodes, by the primary key.
-- `paid_by` is the payment: the memo of its transfers.
create table royalties (
  entry_id uuid not null,
  reader uuid not null,
  day date not null,
  author uuid not null,
  amount_micros bigint not null check (amount_micros > 0),
  -- Paid in promotional credits: for reads that were free or paid with such.
  promo boolean not null,
  at timestamptz not null,
  paid_by uuid,
  primary key (entry_id, reader, day)
);
create index royalties_open on royalties (promo, author, at, entry_id, reader) include (amount_micros)
  where paid_by is null;
create index royalties_by_reader on royalties (reader, day);
create index royalties_paid on royalties (paid_by) include (amount_micros) where paid_by is not null;
create index ledger_paid_in_cash on ledger (call_id)
  where (kind = 'price' and promo_micros < amount_micros) or (kind in ('charge', 'fee', 'share')
    and (debit like 'agent:%:cash' or debit like 'agent:%:held' or debit like 'owed:%'));

-- Whether two agents are in, or own, a common fleet.
create function share_fleet(agent_a uuid, agent_b uuid) returns boolean language sql stable as $$
  select exists (
    (select fleet_id from fleet_members where agent_id = agent_a
      union all select fleet_id from fleets where owner_id = agent_a)
    intersect
    (select fleet_id from fleet_members where agent_id = agent_b
      union all select fleet_id from fleets where owner_id = agent_b))
$$;

-- The first three entries of a result accrue, and the first fifty of a reader's day, so a reader made for
-- it gains little. Cash accrues if cash paid for all of the call; promotional credits only where
-- `owes_promo` allows.
create function accrue_royalties() returns trigger language plpgsql as $$
begin
  insert into royalties (entry_id, reader, day, author, amount_micros, promo, at)
    select o.entry_id, o.reader, o.day, o.author, 20000, not o.cash, o.at from (
      select n.*, row_number() over (partition by n.reader, n.day order by n.at, n.place, n.entry_id) as nth
        from (
          select distinct on (r.entry_id, r.reader, r.day)
                 r.entry_id, r.reader::uuid as reader, r.day, e.agent_id as author, r.place, r.at, r.owes_promo,
                 exists (select from calls c where c.owner = r.reader and c.call_id = r.call_id
                    and c.at > r.at - interval '1 day' and c.cost_micros > 0 and c.cost_micros <= (
                      select sum(l.amount_micros - coalesce(l.promo_micros, 0)) from ledger l where l.call_id = c.call_id
                         and ((l.kind = 'price' and l.promo_micros < l.amount_micros) or (l.kind in ('charge', 'fee', 'share')
                           and (l.debit like 'agent:%:cash' or l.debit like 'agent:%:held' or l.debit like 'owed:%'))))) as cash
            from fresh r join hive_entries e on e.id = r.entry_id
           where r.has_key and e.is_public and e.agent_id::text <> r.reader and coalesce(r.place, 1) <= 3
             and exists (select from aggregates a where a.id = e.agent_id::text and a.kind = 'agent')
             and not share_fleet(r.reader::uuid, e.agent_id)
             and not exists (select from royalties k
                   where k.entry_id = r.entry_id and k.reader = r.reader::uuid and k.day = r.day)
           order by r.entry_id, r.reader, r.day, r.at) n
       where n.cash or n.owes_promo) o
     where o.nth + (select count(*) from royalties k where k.reader = o.reader and k.day = o.day) <= 50
    on conflict do nothing;
  return null;
end $$;
create trigger hive_reads_royalties after insert on hive_reads
  referencing new table as fresh for each statement execute function accrue_royalties();

-- Earned and paid royalties of each author as running sums: reading them has a constant cost. A commit only
-- appends its change, so commits never wait for the row of a popular author; a job adds up the changes.
create table royalty_changes (
  id bigint generated always as identity primary key,
  author uuid not null,
  earned_micros bigint not null,
  paid_micros bigint not null
);
create index royalty_changes_by_author on royalty_changes (author) include (earned_micros, paid_micros);
create table royalty_sums (
  author uuid primary key,
  earned_micros bigint not null,
  paid_micros bigint not null
) with (fillfactor = 80);

create function record_accrued_royalties() returns trigger language plpgsql as $$
begin
  insert into royalty_changes (author, earned_micros, paid_micros)
    select f.author, sum(f.amount_micros), coalesce(sum(f.amount_micros) filter (where f.paid_by is not null), 0)
      from fresh f group by f.author;
  return null;
end $$;
create function record_paid_royalties() returns trigger language plpgsql as $$
begin
  insert into royalty_changes (author, earned_micros, paid_micros)
    select f.author, 0, sum(f.amount_micros)
      from fresh f join stale s using (entry_id, reader, day)
     where f.paid_by is not null and s.paid_by is null group by f.author;
  return null;
end $$;
create trigger royalties_record_accrued after insert on royalties
  referencing new table as fresh for each statement execute function record_accrued_royalties();
create trigger royalties_record_paid after update on royalties
  referencing old table as stale new table as fresh for each statement execute function record_paid_royalties();

-- The pool, fed by a share of the fees up to `fed_until`. Its balances repeat the ledger's; the row is also
-- the lock for feeding and paying.
create table royalty_pool (
  singleton boolean primary key default true check (singleton),
  fed_until timestamptz,
  promo_micros bigint not null default 0 check (promo_micros >= 0),
  cash_micros bigint not null default 0 check (cash_micros >= 0),
  -- The last paid author of each: the next round continues after it.
  promo_after uuid not null default '00000000-0000-0000-0000-000000000000',
  cash_after uuid not null default '00000000-0000-0000-0000-000000000000'
);
insert into royalty_pool default values;

create table strategies (
  id uuid primary key,
  agent_id uuid not null,
  title text not null,
  description text not null,
  tool text,
  chain text,
  params jsonb not null,
  tx_hash text,
  tx_verified boolean not null,
  is_public boolean not null,
  forked_from uuid,
  call_id uuid not null,
  created_at timestamptz not null,
  -- Published by a private call: no public place names the author.
  ghost boolean not null default false
);
create index strategies_listed on strategies (id) where is_public;
create index strategies_by_agent on strategies (agent_id, id);

create table strategy_forks (
  fork_id uuid not null,
  strategy_id uuid not null,
  author uuid not null,
  agent_id uuid not null,
  call_id uuid not null,
  royalty_micros bigint not null,
  at timestamptz not null
);
create index strategy_forks_by_strategy on strategy_forks (strategy_id) include (royalty_micros);
create index strategy_forks_by_call on strategy_forks (call_id);
create index strategy_forks_by_agent on strategy_forks (agent_id, fork_id);

insert into stageable values ('strategies'), ('strategy_forks');
