-- The Hive at scale: words for typing errors, royalties and the pool that pays them, featured entries,
-- watches; and strategies. Rows are staged by calls, so no constraint of a staged table refuses one.

-- Entries of one namespace, the newest first.
create index hive_entries_by_namespace on hive_entries (namespace, at);

-- The words of public entries: a word that is not among them is a typing error, and its nearest
-- neighbour is what was meant. So trigrams stand over short words and not over whole texts.
create table hive_words (word text primary key);
insert into hive_words
  select distinct w from hive_entries e,
    unnest(tsvector_to_array(to_tsvector('simple', e.content || ' ' || array_to_string(e.tags, ' ')))) w
   where e.is_public and w ~ '^[[:alpha:]]{4,32}$';
drop index if exists hive_entries_trigrams;
do $$
begin
  create index hive_words_trigrams on hive_words using gin (word gin_trgm_ops);
exception when others then
  raise notice 'hive search works without pg_trgm: %', sqlerrm;
end $$;

-- The newest entries that match, by the index over words: the planner would rather walk back through
-- time and look at each entry, since it overrates how soon it has found enough.
create function hive_matching(query tsquery, asker uuid, least_confidence double precision, ns text, most int)
  returns table (id uuid, at timestamptz, content_search tsvector, size int)
  language sql stable set enable_seqscan = off set enable_indexscan = off as $$
  select e.id, e.at, e.content_search, length(e.content) from hive_entries e
   where e.content_search @@ query and (e.is_public or e.agent_id = asker)
     and e.confidence >= least_confidence and (ns is null or e.namespace = ns)
   order by e.at desc limit most
$$;

-- Watches. Many agents watch the same words: the query stands once, however they are spelt, as long as
-- somebody watches; and it is found by one of its own words, so that a write is compared only with
-- queries that share that word.
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
  -- Kept by the triggers below.
  query_id bigint,
  -- Matches up to this one were there before the watch.
  after_id bigint,
  ended_at timestamptz
);
create index hive_watches_by_agent on hive_watches (agent_id, watch_id) where ended_at is null;
create index hive_watches_by_query on hive_watches (query_id) where ended_at is null;

create table hive_watch_ends (
  watch_id uuid not null,
  agent_id uuid not null,
  at timestamptz not null
);

-- Ids are given under a lock, so they become visible in their order and are safe as cursors.
create table hive_matches (
  id bigint generated always as identity primary key,
  query_id bigint not null,
  entry_id uuid not null,
  author uuid not null,
  at timestamptz not null,
  -- Of a match that was found after the commit of its entry: a watch that began since has no part in it.
  written timestamptz
);
create index hive_matches_by_query on hive_matches (query_id, id) include (author, written);

-- Entries whose commit has found as much as one may, and which queries they are still to be compared with.
create table hive_unmatched (
  entry_id uuid primary key,
  after_query bigint not null,
  at timestamptz not null
);
create index hive_unmatched_in_order on hive_unmatched (at, entry_id);

-- The words of a query, the longest first, which tends to be the rarest.
create function hive_anchor(keyword text) returns text language sql immutable as $$
  select w from unnest(tsvector_to_array(to_tsvector('english', keyword))) w
   order by length(w) desc, w limit 1
$$;

-- All words of a keyword, in one order: those who watch the same share a query.
create function hive_query(keyword text) returns tsquery language sql immutable as $$
  select string_agg('''' || replace(replace(w, '\', '\\'), '''', '''''') || '''', ' & ' order by w)::tsquery
    from unnest(tsvector_to_array(to_tsvector('english', keyword))) w
$$;

-- The one lock of these triggers, held until the commit ends: so no two of them wait for each other.
create function lock_hive() returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('hive', 0))
$$;

create function begin_hive_watch() returns trigger language plpgsql as $$
begin
  -- Matches of writes that commit meanwhile come before the watch or after it, never in between.
  perform lock_hive();
  insert into hive_queries (namespace, query, anchor)
    select new.namespace, hive_query(new.keyword), hive_anchor(new.keyword)
     where hive_anchor(new.keyword) is not null
    on conflict do nothing;
  select q.id into new.query_id from hive_queries q
    where q.query = hive_query(new.keyword) and q.namespace is not distinct from new.namespace;
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
  -- Nobody begins to watch for the same words meanwhile.
  perform lock_hive();
  update hive_watches set ended_at = new.at
    where watch_id = new.watch_id and agent_id = new.agent_id and ended_at is null
    returning query_id into ended;
  delete from hive_queries q where q.id = ended
    and not exists (select from hive_watches w where w.query_id = q.id and w.ended_at is null);
  return null;
end $$;
create trigger hive_watch_ends_watch after insert on hive_watch_ends
  for each row execute function end_hive_watch();

-- The next queries that an entry has all words of: of `looks` that are compared, `most` at most. `reached`
-- is where to go on, null at the end.
create function hive_queries_of(words tsvector, ns text, after bigint, most int, looks int,
  out ids bigint[], out compared int, out reached bigint
) language sql stable as $$
  with near as materialized (
    select q.* from unnest(tsvector_to_array(words)) w(word) cross join lateral (
        select c.id, c.query from hive_queries c
         where c.anchor = w.word and c.id > after and (c.namespace is null or c.namespace = ns)
         order by c.id limit looks) q
     order by q.id limit looks),
  matched as materialized (
    select n.id from near n where words @@ n.query
       and exists (select from hive_watches w where w.query_id = n.id and w.ended_at is null)
     order by n.id limit most)
  select (select array_agg(id order by id) from matched), (select count(*)::int from near),
         case when (select count(*) from matched) >= most then (select max(id) from matched)
              when (select count(*) from near) >= looks then (select max(id) from near) end
$$;

-- The work of a commit is bounded, and so is the time it has the lock: what is beyond is matched soon.
create function match_hive_watches() returns trigger language plpgsql as $$
declare
  entry record;
  part record;
  most int := 300;
  looks int := 5000;
  queries bigint[] := '{}';
  entries uuid[] := '{}';
  authors uuid[] := '{}';
begin
  for entry in select * from fresh f where f.is_public order by f.at, f.id loop
    if most > 0 and looks > 0 then
      select * into part from hive_queries_of(entry.content_search, entry.namespace, 0, most, looks);
    else
      select null::bigint[] as ids, 0 as compared, 0::bigint as reached into part;
    end if;
    queries := queries || part.ids;
    entries := entries || array_fill(entry.id, array[coalesce(cardinality(part.ids), 0)]);
    authors := authors || array_fill(entry.agent_id, array[coalesce(cardinality(part.ids), 0)]);
    most := most - coalesce(cardinality(part.ids), 0);
    looks := looks - part.compared;
    if part.reached is not null then
      insert into hive_unmatched values (entry.id, part.reached, clock_timestamp()) on conflict do nothing;
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

-- Goes on with one entry; false where none is left, or another node has it.
create function match_hive_more() returns boolean language plpgsql as $$
declare
  entry record;
  part record;
begin
  select u.entry_id as id, u.after_query, e.agent_id, e.at, e.namespace, e.content_search into entry
    from hive_unmatched u join hive_entries e on e.id = u.entry_id
   order by u.at, u.entry_id limit 1 for update of u skip locked;
  if not found then return false; end if;
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

create function learn_hive_words() returns trigger language plpgsql as $$
declare
  unknown text[];
begin
  select array_agg(distinct w) into unknown from fresh f,
      unnest(tsvector_to_array(to_tsvector('simple', f.content || ' ' || array_to_string(f.tags, ' ')))) w
    where f.is_public and w ~ '^[[:alpha:]]{4,32}$'
      and not exists (select from hive_words k where k.word = w);
  if unknown is null then return null; end if;
  -- Two commits that learn the same words at once would wait for each other, each for the other's.
  perform lock_hive();
  insert into hive_words select unnest(unknown) on conflict do nothing;
  return null;
end $$;
create trigger hive_entries_then_words after insert on hive_entries
  referencing new table as fresh for each statement execute function learn_hive_words();

-- What an author is owed for a read: once a reader, entry and UTC day (decision 24), on any number of
-- nodes, by this key. `paid_by` names the payment, which is the memo of its transfers.
create table royalties (
  entry_id uuid not null,
  reader uuid not null,
  day date not null,
  author uuid not null,
  amount_micros bigint not null check (amount_micros > 0),
  -- Paid as promotional credits: so is what a call was free for, or paid for with such.
  promo boolean not null,
  at timestamptz not null,
  paid_by uuid,
  primary key (entry_id, reader, day)
);
create index royalties_open on royalties (promo, author, at, entry_id, reader) include (amount_micros)
  where paid_by is null;
create index royalties_by_reader on royalties (reader, day);
create index royalties_owed on royalties (author) include (amount_micros) where paid_by is null;
create index royalties_paid on royalties (paid_by) include (amount_micros) where paid_by is not null;
create index royalties_by_author on royalties (author) include (amount_micros);

-- Neither the author nor anybody of a fleet that the author is in or owns.
create function shares_fleet(one uuid, other uuid) returns boolean language sql stable as $$
  select exists (
    (select fleet_id from fleet_members where agent_id = one
      union all select fleet_id from fleets where owner_id = one)
    intersect
    (select fleet_id from fleet_members where agent_id = other
      union all select fleet_id from fleets where owner_id = other))
$$;

-- Where in its answer an entry stood; null is the first.
alter table hive_reads add column place int;
create index transfers_cash_fees on transfers (call_id) include (amount_micros)
  where kind = 'fee' and (debit like 'agent:%:cash' or debit like 'owed:%');

-- Of an answer the first three are owed for, and of a reader's day the first fifty: a reader that is
-- made for it takes little from the pool, and no cash unless it paid with cash for the call.
create function owe_royalties() returns trigger language plpgsql as $$
begin
  insert into royalties (entry_id, reader, day, author, amount_micros, promo, at)
    select n.entry_id, n.reader, n.day, n.author, 20000,
           not exists (select from calls c where c.owner = n.reader::text and c.call_id = n.call_id
              and c.at > n.at - interval '1 day' and c.cost_micros > 0 and c.cost_micros <= (
                select sum(t.amount_micros) from transfers t where t.call_id = c.call_id
                   and t.kind = 'fee' and (t.debit like 'agent:%:cash' or t.debit like 'owed:%'))), n.at
      from (
        select o.*, row_number() over (partition by o.reader, o.day order by o.at, o.place, o.entry_id) as nth
          from (
            select distinct on (r.entry_id, r.reader, r.day)
                   r.entry_id, r.reader::uuid as reader, r.day, e.agent_id as author, r.call_id, r.place, r.at
              from fresh r join hive_entries e on e.id = r.entry_id
             where r.has_key and e.is_public and e.agent_id::text <> r.reader and coalesce(r.place, 1) <= 3
               and exists (select from aggregates a where a.id = e.agent_id::text and a.kind = 'agent')
               and not shares_fleet(r.reader::uuid, e.agent_id)
               and not exists (select from royalties k
                     where k.entry_id = r.entry_id and k.reader = r.reader::uuid and k.day = r.day)
             order by r.entry_id, r.reader, r.day, r.at) o) n
     where n.nth + (select count(*) from royalties k where k.reader = n.reader and k.day = n.day) <= 50
    on conflict do nothing;
  return null;
end $$;
create trigger hive_reads_royalties after insert on hive_reads
  referencing new table as fresh for each statement execute function owe_royalties();

-- The pool, fed by a share of the fees up to an instant. Its balances repeat the ledger's; the row is
-- also the lock under which it is fed and pays.
create table royalty_pool (
  one boolean primary key default true check (one),
  fed_until timestamptz,
  promo_micros bigint not null default 0 check (promo_micros >= 0),
  cash_micros bigint not null default 0 check (cash_micros >= 0),
  -- The authors who were last paid from each: a round goes on behind them.
  promo_after uuid not null default '00000000-0000-0000-0000-000000000000',
  cash_after uuid not null default '00000000-0000-0000-0000-000000000000'
);
insert into royalty_pool default values;
create index transfers_by_time on transfers using brin (at) with (autosummarize = on);

-- The one featured place. A call takes it for a moment, and its commit keeps it for a day.
create table hive_features (
  entry_id uuid not null,
  agent_id uuid not null,
  call_id uuid not null,
  at timestamptz not null,
  ends_at timestamptz not null
);
create index hive_features_by_end on hive_features (ends_at);
create table hive_feature_place (
  one boolean primary key default true check (one),
  call_id uuid,
  taken_until timestamptz
);
insert into hive_feature_place default values;
create function keep_hive_feature() returns trigger language plpgsql as $$
begin
  update hive_feature_place set taken_until = new.ends_at where call_id = new.call_id;
  return null;
end $$;
create trigger hive_features_place after insert on hive_features
  for each row execute function keep_hive_feature();

-- Vectors of entries, where the operator has a provider of them.
create table hive_vectors (
  entry_id uuid primary key,
  model text not null,
  vector real[] not null,
  -- The order in which they came: nodes read on from where they are.
  id bigint generated always as identity
);
create index hive_vectors_in_order on hive_vectors (model, id);

-- Strategies, and who has forked them.
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
  created_at timestamptz not null
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

insert into stageable values ('hive_watches'), ('hive_watch_ends'), ('hive_features'), ('strategies'),
  ('strategy_forks') on conflict do nothing;
