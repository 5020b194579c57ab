-- Watches of the Hive: queries and their matches. Rows are staged by calls, so no constraint rejects one.

-- Agents that watch the same words share a query. A query is found by one of its own words, so a
-- write is compared only with queries that share that word.
create table hive_queries (
  id bigint generated always as identity primary key,
  namespace text,
  query tsquery not null,
  anchor text not null,
  unique nulls not distinct (query, namespace)
);
create index hive_queries_by_anchor on hive_queries (anchor, id);

create table hive_watches (
  watch_id uuid primary key,
  agent_id uuid not null,
  keyword text not null,
  namespace text,
  call_id uuid not null,
  created_at timestamptz not null,
  -- Set by the triggers below.
  query_id bigint,
  -- Matches up to this id are older than the watch.
  after_id bigint,
  ended_at timestamptz
);
create index hive_watches_by_agent on hive_watches (agent_id, watch_id) where ended_at is null;
create index hive_watches_by_query on hive_watches (query_id) where ended_at is null;

create table hive_watch_closures (
  watch_id uuid not null,
  agent_id uuid not null,
  at timestamptz not null
);

-- Ids are assigned under a lock, so they become visible in order and are safe cursors.
create table hive_matches (
  id bigint generated always as identity primary key,
  query_id bigint not null,
  entry_id uuid not null,
  author uuid not null,
  at timestamptz not null,
  -- The commit time of the entry, for a match found later: watches that began since are not notified.
  written timestamptz
);
create index hive_matches_by_query on hive_matches (query_id, id) include (author, written);

-- Entries with more matches than one commit may find, and the last query they were compared with.
create table hive_pending_matches (
  entry_id uuid primary key,
  after_query bigint not null,
  at timestamptz not null
);
create index hive_pending_matches_in_order on hive_pending_matches (at, entry_id);

-- New queries. A first watch for some words and a matching entry that commit at the same time do not see
-- each other. When every transaction that may have missed the query has ended, the query is compared
-- once with the entries written since its watch began.
create table hive_new_queries (
  query_id bigint primary key,
  -- A transaction later than all that may have missed it; null until the first check.
  next xid8
);

-- The anchor of a query: its longest word, which tends to be the rarest.
create function hive_anchor(keyword text) returns text language sql immutable as $$
  select w from unnest(tsvector_to_array(to_tsvector('english', keyword))) w
   order by length(w) desc, w limit 1
$$;

-- All words of a keyword, sorted: watches of the same words share a query.
create function hive_query(keyword text) returns tsquery language sql immutable as $$
  select string_agg('''' || replace(replace(w, '\', '\\'), '''', '''''') || '''', ' & ' order by w)::tsquery
    from unnest(tsvector_to_array(to_tsvector('english', keyword))) w
$$;

create function begin_hive_watch() returns trigger language plpgsql as $$
begin
  -- Concurrent matches become visible before the watch or after it.
  perform lock_hive();
  insert into hive_queries (namespace, query, anchor)
    select new.namespace, hive_query(new.keyword), hive_anchor(new.keyword)
     where hive_anchor(new.keyword) is not null
    on conflict do nothing returning id into new.query_id;
  if found then
    insert into hive_new_queries values (new.query_id);
  else
    select q.id into new.query_id from hive_queries q
      where q.query = hive_query(new.keyword) and q.namespace is not distinct from new.namespace;
  end if;
  select coalesce(max(m.id), 0) into new.after_id from hive_matches m
    where m.query_id = new.query_id;
  return new;
end $$;
create trigger hive_watches_begin before insert on hive_watches
  for each row execute function begin_hive_watch();

create function end_hive_watch() returns trigger language plpgsql as $$
declare
  ended bigint;
begin
  -- Excludes a new watch for the same words.
  perform lock_hive();
  update hive_watches set ended_at = new.at
    where watch_id = new.watch_id and agent_id = new.agent_id and ended_at is null
    returning query_id into ended;
  delete from hive_queries q where q.id = ended
    and not exists (select from hive_watches w where w.query_id = q.id and w.ended_at is null);
  return null;
end $$;
create trigger hive_watch_closures_apply after insert on hive_watch_closures
  for each row execute function end_hive_watch();

-- The next queries whose words are all in an entry: at most `max_matches` matches of `max_compared` compared queries.
-- `reached` is the query to continue after, null at the end.
create function find_hive_queries(words tsvector, ns text, after bigint, max_matches int, max_compared int,
  out ids bigint[], out compared int, out reached bigint
) language sql stable as $$
  with near as materialized (
    select q.* from unnest(tsvector_to_array(words)) w(word) cross join lateral (
        select c.id, c.query from hive_queries c
         where c.anchor = w.word and c.id > after and (c.namespace is null or c.namespace = ns)
         order by c.id limit max_compared) q
     order by q.id limit max_compared),
  matched as materialized (
    select n.id from near n where words @@ n.query
       and exists (select from hive_watches w where w.query_id = n.id and w.ended_at is null)
     order by n.id limit max_matches)
  select (select array_agg(id order by id) from matched), (select count(*)::int from near),
         case when (select count(*) from matched) >= max_matches then (select max(id) from matched)
              when (select count(*) from near) >= max_compared then (select max(id) from near) end
$$;

-- Bounds the work of a commit and the time it holds the lock; match_next_hive_entry does the rest.
create function match_hive_watches() returns trigger language plpgsql as $$
declare
  entry record;
  part record;
  matches_left int := 300;
  comparisons_left int := 5000;
  queries bigint[] := '{}';
  entries uuid[] := '{}';
  authors uuid[] := '{}';
begin
  for entry in select * from fresh f where f.is_public order by f.at, f.id loop
    if matches_left > 0 and comparisons_left > 0 then
      select * into part from find_hive_queries(entry.content_search, entry.namespace, 0, matches_left, comparisons_left);
    else
      select null::bigint[] as ids, 0 as compared, 0::bigint as reached into part;
    end if;
    queries := queries || part.ids;
    entries := entries || array_fill(entry.id, array[coalesce(cardinality(part.ids), 0)]);
    authors := authors || array_fill(entry.agent_id, array[coalesce(cardinality(part.ids), 0)]);
    matches_left := matches_left - coalesce(cardinality(part.ids), 0);
    comparisons_left := comparisons_left - part.compared;
    if part.reached is not null then
      insert into hive_pending_matches values (entry.id, part.reached, clock_timestamp()) on conflict do nothing;
    end if;
  end loop;
  if queries = '{}' then return null; end if;
  perform lock_hive();
  insert into hive_matches (query_id, entry_id, author, at)
    select q, e, a, clock_timestamp()
      from unnest(queries, entries, authors) with ordinality x(q, e, a, n) order by n;
  return null;
end $$;
create trigger hive_entries_first_watches after insert on hive_entries
  referencing new table as fresh for each statement execute function match_hive_watches();

-- Matches new queries; false where none is ready, or another node has them.
create function match_new_hive_queries() returns boolean language plpgsql as $$
declare
  ready bigint[];
  since timestamptz;
begin
  select array_agg(query_id) into ready from (
    select query_id from hive_new_queries where next <= pg_snapshot_xmin(pg_current_snapshot())
     order by query_id limit 300 for update skip locked) y;
  if ready is null then
    -- This transaction sees them; every transaction that does not is earlier.
    update hive_new_queries set next = pg_current_xact_id() where query_id in (
      select query_id from hive_new_queries where next is null
       order by query_id for update skip locked);
    return found;
  end if;
  delete from hive_new_queries where query_id = any(ready);
  select min(w.created_at) into since from hive_watches w
    where w.query_id = any(ready) and w.ended_at is null;
  perform lock_hive();
  insert into hive_matches (query_id, entry_id, author, at, written)
    -- By time and not by words: few entries are that new.
    with fresh as materialized (
      select e.id, e.agent_id, e.at, e.namespace, e.content_search from hive_entries e
       where e.at >= since and e.is_public
         -- match_next_hive_entry compares those.
         and not exists (select from hive_pending_matches u where u.entry_id = e.id))
    select q.id, f.id, f.agent_id, clock_timestamp(), f.at
      from hive_queries q
      join fresh f on f.content_search @@ q.query and (q.namespace is null or q.namespace = f.namespace)
     where q.id = any(ready)
       and f.at >= (select min(w.created_at) from hive_watches w where w.query_id = q.id and w.ended_at is null)
       and not exists (select from hive_matches m where m.query_id = q.id and m.entry_id = f.id)
     order by f.at, f.id, q.id;
  return true;
end $$;

-- Continues one entry, then new queries; false where none is left, or another node has them.
create function match_next_hive_entry() returns boolean language plpgsql as $$
declare
  entry record;
  part record;
begin
  select u.entry_id as id, u.after_query, e.agent_id, e.at, e.namespace, e.content_search into entry
    from hive_pending_matches u join hive_entries e on e.id = u.entry_id
   order by u.at, u.entry_id limit 1 for update of u skip locked;
  if not found then return match_new_hive_queries(); end if;
  select * into part from find_hive_queries(entry.content_search, entry.namespace, entry.after_query, 300, 5000);
  if part.reached is null then
    delete from hive_pending_matches u where u.entry_id = entry.id;
  else
    update hive_pending_matches u set after_query = part.reached where u.entry_id = entry.id;
  end if;
  if part.ids is null then return true; end if;
  perform lock_hive();
  insert into hive_matches (query_id, entry_id, author, at, written)
    select q, entry.id, entry.agent_id, clock_timestamp(), entry.at
      from unnest(part.ids) with ordinality x(q, n) order by n;
  return true;
end $$;

insert into stageable values ('hive_watches'), ('hive_watch_closures');
