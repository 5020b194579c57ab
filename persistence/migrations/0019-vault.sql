-- The vault: what an agent remembers for itself. Rows are staged by calls, so no constraint refuses one;
-- each names every column but those a trigger keeps.

create table vault_memories (
  id uuid primary key,
  agent_id uuid not null,
  content text not null,
  type text not null,
  tags text[] not null,
  importance double precision not null,
  immortal boolean not null,
  -- 'vault', or the pack it came with as 'pack:<slug>'.
  namespace text not null,
  -- How it came to be: by which operation, from which memories, by which method, from which source.
  origin jsonb not null,
  -- 256 signed bytes (core/packed.ts): alike in words, not in meaning.
  vector bytea not null,
  call_id uuid not null,
  at timestamptz not null,
  expires_at timestamptz,
  -- Kept by the triggers below.
  content_search tsvector,
  archived_at timestamptz,
  archived_as text,
  archived_by uuid
);
create index vault_memories_live on vault_memories (agent_id, at, id) where archived_at is null;
create index vault_memories_by_agent on vault_memories (agent_id, id);

create function index_vault_memory() returns trigger language plpgsql as $$
begin
  new.content_search := to_tsvector('english', new.content || ' ' || array_to_string(new.tags, ' '));
  return new;
end $$;
create trigger vault_memories_words before insert on vault_memories
  for each row execute function index_vault_memory();

-- Memories that another stands for now: summarised, or superseded by one that says otherwise. They
-- stay in the export. One that two calls archive at once is archived once.
create table vault_archivals (
  memory_id uuid not null,
  agent_id uuid not null,
  reason text not null,
  by_id uuid not null,
  call_id uuid not null,
  at timestamptz not null
);
create index vault_archivals_by_memory on vault_archivals (memory_id);
create function archive_vault_memory() returns trigger language plpgsql as $$
begin
  update vault_memories set archived_at = new.at, archived_as = new.reason, archived_by = new.by_id
   where id = new.memory_id and agent_id = new.agent_id and archived_at is null;
  return null;
end $$;
create trigger vault_archivals_apply after insert on vault_archivals
  for each row execute function archive_vault_memory();

-- Each order of an agent's memories stands on the one before: the machine counts them too.
create table vault_orders (
  agent_id uuid not null,
  call_id uuid not null,
  at timestamptz not null
);
create index vault_orders_by_agent on vault_orders (agent_id);

-- What was asked and what came of it: the hit rate, what is recalled often, and what is not known yet.
create table vault_queries (
  id uuid not null,
  agent_id uuid not null,
  query text not null,
  memory_ids uuid[] not null,
  similarity double precision not null,
  call_id uuid not null,
  at timestamptz not null
);
create index vault_queries_by_agent on vault_queries (agent_id, at);
create index vault_queries_by_time on vault_queries (at);

-- Copies for another agent, of what a memory said when it was shared.
create table vault_shares (
  id uuid not null,
  memory_id uuid not null,
  from_agent uuid not null,
  to_agent uuid not null,
  content text not null,
  type text not null,
  tags text[] not null,
  importance double precision not null,
  remembered_at timestamptz not null,
  memo text,
  call_id uuid not null,
  at timestamptz not null
);
create index vault_shares_received on vault_shares (to_agent, id);

-- Copies in the public Hive, and which memory each is of.
create table vault_promotions (
  memory_id uuid not null,
  entry_id uuid not null,
  agent_id uuid not null,
  call_id uuid not null,
  at timestamptz not null
);
create index vault_promotions_by_memory on vault_promotions (memory_id);

create table pack_installs (
  agent_id uuid not null,
  pack text not null,
  -- What it was bought as: the pack, or the bundle it is in.
  bought_as text not null,
  entries int not null,
  call_id uuid not null,
  at timestamptz not null
);
create index pack_installs_by_agent on pack_installs (agent_id, at);

insert into stageable values ('vault_memories'), ('vault_archivals'), ('vault_orders'), ('vault_queries'),
  ('vault_shares'), ('vault_promotions'), ('pack_installs');
