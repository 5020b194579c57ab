-- The vault: private memories of agents. Rows are staged by calls, so no constraint rejects one; each names
-- every column but those set by triggers.

create table vault_memories (
  id uuid primary key,
  agent_id uuid not null,
  content text not null,
  type text not null,
  tags text[] not null,
  importance double precision not null,
  immortal boolean not null,
  -- 'vault', or the pack it was installed with as 'pack:<slug>'.
  namespace text not null,
  -- Provenance: operation, source memories, method, source.
  origin jsonb not null,
  -- 256 signed bytes (domain/vector-quantization.ts): similarity of words, not of meaning.
  vector bytea not null,
  call_id uuid not null,
  at timestamptz not null,
  expires_at timestamptz,
  -- Set by the triggers below.
  content_search tsvector,
  archived_at timestamptz,
  archived_as text,
  archived_by uuid
);
create index vault_memories_live on vault_memories (agent_id, at, id) where archived_at is null;
create index vault_memories_by_agent on vault_memories (agent_id, id);

create function index_vault_memory() returns trigger language plpgsql as $$
begin
  new.content_search := to_tsvector('english', searchable_text(new.content, new.tags));
  return new;
end $$;
-- A copy of a sold memory brings the words of the original.
create trigger vault_memories_words before insert on vault_memories
  for each row when (new.content_search is null) execute function index_vault_memory();

-- Memories that were summarised or superseded by another one. They stay in the export. Two calls that
-- archive one memory archive it once.
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

-- Consolidations (compress, dream) of an agent's memories. Each builds on the one before: the machine counts them too.
create table vault_consolidations (
  agent_id uuid not null,
  call_id uuid not null,
  at timestamptz not null
);
create index vault_consolidations_by_agent on vault_consolidations (agent_id);

-- Queries and their results: hit rate, often recalled memories, unanswered questions.
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

-- Copies for another agent, with the content at the time of sharing.
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

-- Copies in the public Hive, and the memory of each.
create table vault_promotions (
  memory_id uuid not null,
  entry_id uuid not null,
  agent_id uuid not null,
  call_id uuid not null,
  at timestamptz not null
);
create index vault_promotions_by_memory on vault_promotions (memory_id);

-- One of several concurrent promotions of a memory wins: a call claims the memory for a moment; its commit
-- adds the row to vault_promotions.
create table vault_promotion_claims (
  memory_id uuid primary key,
  call_id uuid not null,
  until timestamptz not null
);

create table pack_installs (
  agent_id uuid not null,
  pack text not null,
  -- The purchase: the pack itself, or the bundle that contains it.
  bought_as text not null,
  entries int not null,
  call_id uuid not null,
  at timestamptz not null
);
create index pack_installs_by_agent on pack_installs (agent_id, at);

insert into stageable values ('vault_memories'), ('vault_archivals'), ('vault_consolidations'), ('vault_queries'),
  ('vault_shares'), ('vault_promotions'), ('pack_installs');
