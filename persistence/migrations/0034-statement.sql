-- What an agent was credited by others, in the order of the ledger: for its statement and its list of
-- transfers. Its own commits never write into it, so a call costs nothing more.
drop index transfers_received;
create index transfers_received on transfers (credit, id)
  where credit like 'agent:%' and split_part(credit, ':', 2) <> owner;

-- Whether a row that is visible now was visible in an earlier snapshot, by the transaction that wrote
-- it. A row says 32 of the 64 bits of that transaction; it is the latest one that has them.
create function was_visible(written xid, earlier pg_snapshot) returns boolean language sql stable as $$
  select pg_visible_in_snapshot(
    (latest - ((latest - written::text::bigint) & 4294967295))::text::xid8, earlier)
    from (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as latest) l
$$;

-- `calls` are those that were answered, charged or free: what a limit refused at its end, and what
-- failed, is none. Private ones are left out of the public figures as before.
create or replace function count_usage() returns trigger language plpgsql as $$
begin
  insert into usage_daily as u
    select owner, (at at time zone 'UTC')::date, count(*) filter (where status = 'ok'),
           count(*) filter (where not ghost), count(*) filter (where not ghost and status = 'ok'),
           sum(cost_micros)::bigint, max(at)
      from fresh where tool is not null group by 1, 2 order by 1, 2
    on conflict (owner, day) do update set
      calls = u.calls + excluded.calls, public_calls = u.public_calls + excluded.public_calls,
      public_ok = u.public_ok + excluded.public_ok,
      spent_micros = u.spent_micros + excluded.spent_micros,
      last_at = greatest(u.last_at, excluded.last_at);
  return null;
end $$;
update usage_daily u set calls = u.calls - f.failed
  from (select owner, (at at time zone 'UTC')::date as day, count(*) as failed from calls
         where tool is not null and status = 'failed' group by 1, 2) f
 where u.owner = f.owner and u.day = f.day;
