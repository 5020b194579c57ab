-- The royalties in cash of a call are at most its price, in equal parts for its entries (decision 360). The call is
-- kept, so that `gas verify` can compare both; royalties of earlier versions have none.
alter table royalties add call_id uuid;
create index royalties_by_call on royalties (call_id) include (amount_micros) where call_id is not null and not promo;

create or replace function accrue_royalties() returns trigger language plpgsql as $$
begin
  insert into royalties (entry_id, reader, day, author, amount_micros, promo, at, call_id)
    select o.entry_id, o.reader, o.day, o.author, o.amount, not o.cash, o.at, o.call_id from (
      select n.*, row_number() over (partition by n.reader, n.day order by n.at, n.place, n.entry_id) as nth,
             case when n.cash then least(20000, n.cost / count(*) over (partition by n.call_id)) else 20000 end as amount
        from (
          select distinct on (r.entry_id, r.reader, r.day)
                 r.entry_id, r.reader::uuid as reader, r.day, e.agent_id as author, r.place, r.at, r.owes_promo, r.call_id,
                 paid.cost, paid.cost is not null as cash
            from fresh r join hive_entries e on e.id = r.entry_id
            left join lateral (
              select c.cost_micros as cost from calls c where c.owner = r.reader and c.call_id = r.call_id
                 and c.at > r.at - interval '1 day' and c.cost_micros > 0 and c.cost_micros <= (
                   select sum(l.amount_micros - coalesce(l.promo_micros, 0)) from ledger l where l.call_id = c.call_id
                      and ((l.kind = 'price' and l.promo_micros < l.amount_micros) or (l.kind in ('charge', 'fee', 'share')
                        and (l.debit like 'agent:%:cash' or l.debit like 'agent:%:held' or l.debit like 'owed:%'))))
               limit 1) paid on true
           where r.has_key and e.is_public and e.agent_id::text <> r.reader and coalesce(r.place, 1) <= 3
             and exists (select from aggregates a where a.id = e.agent_id::text and a.kind = 'agent')
             and not share_fleet(r.reader::uuid, e.agent_id)
             and not exists (select from royalties k
                   where k.entry_id = r.entry_id and k.reader = r.reader::uuid and k.day = r.day)
           order by r.entry_id, r.reader, r.day, r.at) n
       where n.cash or n.owes_promo) o
     where o.amount > 0
       and o.nth + (select count(*) from royalties k where k.reader = o.reader and k.day = o.day) <= 50
    on conflict do nothing;
  return null;
end $$;
