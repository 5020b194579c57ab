-- Who is the first to watch for some words, and who writes them, may commit at the same time: neither
-- has seen the other then. Such a query is young until nobody writes any more who may not have seen it;
-- then it is looked once for what was written since its watch began.
create table hive_young_queries (
  query_id bigint primary key,
  -- A transaction later than all that may not have seen it; null until somebody has looked.
  next xid8
);

create or replace function begin_hive_watch() returns trigger language plpgsql as $$
begin
  -- Matches of writes that commit meanwhile come before the watch or after it, never in between.
  perform lock_hive();
  insert into hive_queries (namespace, query, anchor)
    select new.namespace, hive_query(new.keyword), hive_anchor(new.keyword)
     where hive_anchor(new.keyword) is not null
    on conflict do nothing returning id into new.query_id;
  if found then
    insert into hive_young_queries values (new.query_id);
  else
    select q.id into new.query_id from hive_queries q
      where q.query = hive_query(new.keyword) and q.namespace is not distinct from new.namespace;
  end if;
  select coalesce(max(m.id), 0) into new.after_id from hive_matches m
    where m.query_id = new.query_id;
  return new;
end $$;

-- Goes on with young queries; false where none is left that can be, or another node has them.
create function match_hive_young() returns boolean language plpgsql as $$
declare
  ready bigint[];
  since timestamptz;
begin
  select array_agg(query_id) into ready from (
    select query_id from hive_young_queries where next <= pg_snapshot_xmin(pg_current_snapshot())
     order by query_id limit 300 for update skip locked) y;
  if ready is null then
    -- This transaction has seen them, and whoever has not is earlier.
    update hive_young_queries set next = pg_current_xact_id() where query_id in (
      select query_id from hive_young_queries where next is null
       order by query_id for update skip locked);
    return found;
  end if;
  delete from hive_young_queries where query_id = any(ready);
  select min(w.created_at) into since from hive_watches w
    where w.query_id = any(ready) and w.ended_at is null;
  perform lock_hive();
  insert into hive_matches (query_id, entry_id, author, at, written)
    -- By their time and not by their words: what is that new is little.
    with fresh as materialized (
      select e.id, e.agent_id, e.at, e.namespace, e.content_search from hive_entries e
       where e.at >= since and e.is_public
         -- Those are compared with them in their turn.
         and not exists (select from hive_unmatched u where u.entry_id = e.id))
    select q.id, f.id, f.agent_id, clock_timestamp(), f.at
      from hive_queries q
      join fresh f on f.content_search @@ q.query and (q.namespace is null or q.namespace = f.namespace)
     where q.id = any(ready)
       and f.at >= (select min(w.created_at) from hive_watches w where w.query_id = q.id and w.ended_at is null)
       and not exists (select from hive_matches m where m.query_id = q.id and m.entry_id = f.id)
     order by f.at, f.id, q.id;
  return true;
end $$;

-- That of 0018, and then the young queries.
create or replace function match_hive_more() returns boolean language plpgsql as $$
declare
  entry record;
  part record;
begin
  select u.entry_id as id, u.after_query, e.agent_id, e.at, e.namespace, e.content_search into entry
    from hive_unmatched u join hive_entries e on e.id = u.entry_id
   order by u.at, u.entry_id limit 1 for update of u skip locked;
  if not found then return match_hive_young(); end if;
  select * into part from hive_queries_of(entry.content_search, entry.namespace, entry.after_query, 300, 5000);
  if part.reached is null then
    delete from hive_unmatched u where u.entry_id = entry.id;
  else
    update hive_unmatched u set after_query = part.reached where u.entry_id = entry.id;
  end if;
  if part.ids is null then return true; end if;
  perform lock_hive();
  insert into hive_matches (query_id, entry_id, author, at, written)
    select q, entry.id, entry.agent_id, clock_timestamp(), entry.at
      from unnest(part.ids) with ordinality x(q, n) order by n;
  return true;
end $$;
