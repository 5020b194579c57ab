-- The Hive: entries, reads, search, featured entries, vectors. Rows are staged by calls, so each
-- names every column but those set by triggers, and no constraint rejects a row: one would fail a commit.

create table hive_entries (
  id uuid primary key,
  agent_id uuid not null,
  content text not null,
  namespace text not null,
  tags text[] not null,
  confidence double precision not null,
  is_public boolean not null,
  call_id uuid not null,
  at timestamptz not null,
  content_search tsvector,
  -- Written by a private call: no public place names the author.
  ghost boolean not null default false
);
create index hive_entries_by_agent on hive_entries (agent_id, id);
create index hive_entries_by_time on hive_entries (at);
create index hive_entries_words on hive_entries using gin (content_search);
-- Entries of one namespace, the newest first.
create index hive_entries_by_namespace on hive_entries (namespace, at);

-- The parser of PostgreSQL takes paths, hosts and hyphenated names for one word, or a negative number. Adds
-- their parts, and joined and split forms: ETH/USD, Node.js, setApprovalForAll, EIP-7702, ERC1271,
-- e-mail, 5,000. Null where there is nothing to add.
create function spelling_variants(content text) returns text language sql immutable parallel safe as $$
  select case when content collate "C" ~ '[A-Za-z0-9][-_./:@,]+[A-Za-z0-9]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}|[A-Za-z]{2}[0-9]{2}' then (
    select nullif(trim(regexp_replace(string_agg(distinct s, ' '), '\m[A-Za-z]\M', ' ', 'g')), '')
      from (select substring(part collate "C" from '[A-Za-z0-9](?:.*[A-Za-z0-9])?') as w
              from (select distinct unnest(string_to_array(translate(content, E'\n\r\t()[]{}<>"`', '             '), ' ')) as part) parts
             where part collate "C" ~ '.[-_./:@,A-Z0-9]') words,
           lateral (values
             -- split into parts
             (case when w ~ '[-_./:@]' and w !~ '^[-0-9.,:/]+$' then regexp_replace(w, '[-_./:@,]+', ' ', 'g') end),
             -- joined
             (case when w ~ '^[A-Za-z0-9]+-[A-Za-z0-9]+$' and w ~ '[A-Za-z]' then replace(w, '-', '') end),
             (case when w ~ '^[0-9]{1,3}(?:,[0-9]{3})+$' then replace(w, ',', '') end),
             -- camel case, except in addresses
             (case when w ~ '[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}' and w !~ '^0x' then
                regexp_replace(
                  regexp_replace(regexp_replace(w, '[-_./:@,]+', ' ', 'g'),
                    '([A-Z])([A-Z][a-z]{2})', '\1 \2', 'g'),
                  '([a-z0-9])([A-Z])(?=[A-Za-z]{2})', '\1 \2', 'g') end),
             -- a name and its number
             (case when w ~ '^[A-Za-z]{2,}[0-9]{2,}$' then regexp_replace(w, '([A-Za-z])([0-9])', '\1 \2') end)
           ) v(s)
     where length(w) <= 80 and s is not null)
  end
$$;

-- The searchable text of a content with tags.
create function searchable_text(content text, tags text[]) returns text language sql stable parallel safe as $$
  select concat_ws(' ', content, nullif(array_to_string(tags, ' '), ''), spelling_variants(content))
$$;

-- A trigger and not a generated column: whole rows are inserted from JSON, which a generated column rejects.
create function index_hive_entry() returns trigger language plpgsql as $$
begin
  new.content_search := to_tsvector('english', searchable_text(new.content, new.tags));
  return new;
end $$;
create trigger hive_entries_words before insert or update of content, tags on hive_entries
  for each row execute function index_hive_entry();

-- Reads of entries: the first read of an entry by a reader on a UTC day counts (decision 24). Concurrent
-- reads may both be stored; counts use distinct (entry_id, reader, day).
create table hive_reads (
  entry_id uuid not null,
  reader text not null,
  has_key boolean not null,
  call_id uuid not null,
  day date not null,
  ghost boolean not null,
  at timestamptz not null,
  -- The rank of the entry in the result; null is the first.
  place int,
  -- Whether a read without cash accrues a royalty in promotional credits.
  owes_promo boolean
);
create index hive_reads_once on hive_reads (entry_id, reader, day);
create index hive_reads_by_time on hive_reads (at);

-- The words of public entries. A word that is not among them is a typing error and is replaced by its
-- nearest neighbour, so trigrams index short words and not whole texts.
create table hive_words (word text primary key);
-- Typing errors are corrected where the server has pg_trgm and allows its use. New words go into the index
-- at once: every search would read a pending list, and the planner would avoid the index.
do $$
begin
  create extension if not exists pg_trgm;
  create index hive_words_trigrams on hive_words using gin (word gin_trgm_ops) with (fastupdate = off);
exception when others then
  raise notice 'hive search works without pg_trgm: %', sqlerrm;
end $$;

-- The newest matching entries, by the word index: the planner underestimates the cost of scanning back
-- through time.
create function hive_matching(query tsquery, agent uuid, min_confidence double precision, ns text, max_matches int)
  returns table (id uuid, at timestamptz, content_search tsvector, size int)
  language sql stable set enable_seqscan = off set enable_indexscan = off as $$
  select e.id, e.at, e.content_search, length(e.content) from hive_entries e
   where e.content_search @@ query and (e.is_public or e.agent_id = agent)
     and e.confidence >= min_confidence and (ns is null or e.namespace = ns)
   order by e.at desc limit max_matches
$$;

-- Each author writes a text once, and no author writes a public text of another. The row is claimed
-- before the entry is written, since no constraint of a staged table may reject a commit.

-- The text reduced to letters and digits in order.
create function normalize_hive_text(content text) returns text language sql immutable as $$
  select coalesce(nullif(trim(regexp_replace(lower(normalize(content, NFKC)), '[^[:alnum:]]+', ' ', 'g')), ''), content)
$$;
create function hash_hive_text(content text) returns bytea language sql immutable as $$
  select sha256(convert_to(normalize_hive_text(content), 'UTF8'))
$$;

create table hive_texts (
  agent_id      uuid        not null,
  is_public     boolean     not null,
  hash          bytea       not null,
  entry_id      uuid        not null,
  -- Bands of the MinHash of its words: texts that share a band are compared.
  bands         int[]       not null,
  -- Until then its entry may still be committed.
  claimed_until timestamptz not null,
  -- The claiming call: its Idempotency-Key, else its id.
  claimed_by    text,
  primary key (agent_id, is_public, hash)
);
create index hive_texts_by_hash on hive_texts (hash) where is_public;
create index hive_texts_by_band on hive_texts using gin (bands) where is_public;

-- Claims a text and returns the id of its entry: `entry`, or the id of an earlier claim by the same call,
-- which may still be committed. Null where the text is written, or another call is writing it or, in
-- public, a text that shares a band with it. The locks last until the end of the claim.
create function claim_hive_text(
  author uuid, public_text boolean, content text, its_bands int[], entry uuid, claimant text, seconds int
) returns uuid language plpgsql as $$
declare
  its_hash bytea := hash_hive_text(content);
  its_entry uuid;
begin
  if public_text then
    perform pg_advisory_xact_lock(1212770885, hashtext(encode(its_hash, 'hex')));
    -- In one order, which prevents deadlocks.
    perform pg_advisory_xact_lock(1212770886, band)
       from (select distinct unnest(its_bands) as band order by 1) bands;
    if exists (
      select from hive_texts t
       where t.is_public and t.agent_id <> author and t.claimed_until > clock_timestamp()
         and (t.hash = its_hash or t.bands && its_bands)
         and not exists (select from hive_entries e where e.id = t.entry_id)
    ) then
      return null;
    end if;
  end if;
  insert into hive_texts as t (agent_id, is_public, hash, entry_id, bands, claimed_until, claimed_by)
  values (author, public_text, its_hash, entry, its_bands,
          clock_timestamp() + make_interval(secs => seconds), claimant)
  on conflict (agent_id, is_public, hash) do update
    set entry_id = case when t.claimed_by = excluded.claimed_by then t.entry_id else excluded.entry_id end,
        bands = excluded.bands,
        claimed_until = excluded.claimed_until, claimed_by = excluded.claimed_by
    where (t.claimed_until <= clock_timestamp() or t.claimed_by = excluded.claimed_by)
      and not exists (select from hive_entries e where e.id = t.entry_id)
  returning t.entry_id into its_entry;
  return its_entry;
end
$$;

-- The one lock of the triggers of the Hive, held until the commit ends, which prevents deadlocks.
create function lock_hive() returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('hive', 0))
$$;

create function add_hive_words() returns trigger language plpgsql as $$
declare
  unknown text[];
begin
  select array_agg(distinct w) into unknown from fresh f,
      unnest(tsvector_to_array(to_tsvector('simple', searchable_text(f.content, f.tags)))) w
    where f.is_public and w ~ '^[[:alpha:]]{4,32}$'
      and not exists (select from hive_words k where k.word = w);
  if unknown is null then return null; end if;
  -- Prevents a deadlock of two commits that insert the same words.
  perform lock_hive();
  insert into hive_words select unnest(unknown) on conflict do nothing;
  return null;
end $$;
create trigger hive_entries_then_words after insert on hive_entries
  referencing new table as fresh for each statement execute function add_hive_words();

-- The one featured slot. A call takes it for a moment; its commit extends that to a day.
create table hive_features (
  entry_id uuid not null,
  agent_id uuid not null,
  call_id uuid not null,
  at timestamptz not null,
  ends_at timestamptz not null
);
create index hive_features_by_end on hive_features (ends_at);
create table hive_feature_slot (
  singleton boolean primary key default true check (singleton),
  call_id uuid,
  taken_until timestamptz
);
insert into hive_feature_slot default values;
create function extend_hive_feature() returns trigger language plpgsql as $$
begin
  update hive_feature_slot set taken_until = new.ends_at where call_id = new.call_id;
  return null;
end $$;
create trigger hive_features_extend after insert on hive_features
  for each row execute function extend_hive_feature();

-- Vectors of entries, where the operator configures an embedding provider.
create table hive_vectors (
  entry_id uuid primary key,
  model text not null,
  vector real[] not null,
  -- Insertion order: nodes read on from the last id.
  id bigint generated always as identity
);
create index hive_vectors_in_order on hive_vectors (model, id);

insert into stageable values ('hive_entries'), ('hive_reads'), ('hive_features');
