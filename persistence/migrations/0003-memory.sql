-- What agents share and what they tell each other. Rows are staged by calls, so each names every
-- column but `content_search`, and no constraint refuses a row: one would fail a whole commit.

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
  content_search tsvector
);
create index hive_entries_by_agent on hive_entries (agent_id, id);
create index hive_entries_by_time on hive_entries (at);
create index hive_entries_words on hive_entries using gin (content_search);

-- A trigger and not a generated column: whole rows are inserted from JSON, which a generated column
-- refuses.
create function index_hive_entry() returns trigger language plpgsql as $$
begin
  new.content_search := to_tsvector('english', new.content || ' ' || array_to_string(new.tags, ' '));
  return new;
end $$;
create trigger hive_entries_words before insert or update of content, tags on hive_entries
  for each row execute function index_hive_entry();

-- Typing errors are forgiven where the server has pg_trgm and lets us use it.
do $$
begin
  create extension if not exists pg_trgm;
  create index hive_entries_trigrams on hive_entries using gin (content gin_trgm_ops);
exception when others then
  raise notice 'hive search works without pg_trgm: %', sqlerrm;
end $$;

-- Who read what: the first read of an entry by a reader on a UTC day counts (decision 24). Two reads
-- at once may both be written; whoever counts, counts distinct (entry_id, reader, day).
create table hive_reads (
  entry_id uuid not null,
  reader text not null,
  has_key boolean not null,
  call_id uuid not null,
  day date not null,
  ghost boolean not null,
  at timestamptz not null
);
create index hive_reads_once on hive_reads (entry_id, reader, day);
create index hive_reads_by_time on hive_reads (at);

create table messages (
  id uuid primary key,
  to_agent uuid not null,
  from_agent uuid not null,
  kind text not null,
  subject text,
  body text not null,
  at timestamptz not null,
  expires_at timestamptz not null
);
create index messages_received on messages (to_agent, id);
create index messages_sent on messages (from_agent, id);
create index messages_expiring on messages (expires_at);

create table broadcasts (
  id uuid primary key,
  from_agent uuid not null,
  topic text not null,
  body text not null,
  recipients int not null,
  at timestamptz not null
);
create index broadcasts_by_time on broadcasts (at);

insert into stageable values ('hive_entries'), ('hive_reads'), ('messages'), ('broadcasts');
