-- Owners in a browser: their sessions, links by e-mail, and addresses that are confirmed.

-- A session, by the hash of its cookie.
create table owner_sessions (
  hash text primary key,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index owner_sessions_expiring on owner_sessions (expires_at);

-- The agents of a session. Its requests act as the key, which manages the keys of the agent.
create table owner_session_agents (
  hash text not null references owner_sessions on delete cascade,
  agent_id uuid not null,
  key_id uuid not null,
  added_at timestamptz not null,
  primary key (hash, agent_id)
);
create index owner_session_agents_by_agent on owner_session_agents (agent_id);

-- One-time links, by the hash of their code. One with an agent confirms the address for it; one without
-- opens a session with all agents that have the address confirmed.
create table owner_links (
  hash text primary key,
  email text not null,
  agent_id uuid,
  -- The key that named the address.
  key_id uuid check ((key_id is null) = (agent_id is null)),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at timestamptz
);
create index owner_links_by_key on owner_links (key_id) where key_id is not null;
create index owner_links_by_email on owner_links (email, created_at);
create index owner_links_by_agent on owner_links (agent_id, created_at) where agent_id is not null;
create index owner_links_by_time on owner_links (created_at);

-- The address that the owner of an agent has confirmed, in lower case. It counts while it is the agent's
-- `contact_email`, and ends when the key that named it is revoked.
create table confirmed_contacts (
  agent_id uuid primary key,
  email text not null,
  key_id uuid not null,
  confirmed_at timestamptz not null
);
create index confirmed_contacts_by_email on confirmed_contacts (email);

-- Whoever holds an old key of the owner is signed out with it; an address that a revoked key has named signs
-- nobody in.
create function end_owner_sessions() returns trigger language plpgsql as $$
begin
  delete from owner_session_agents where agent_id = new.agent_id;
  -- The row stays: links that were sent count, whatever became of their key.
  update owner_links set expires_at = least(expires_at, now()) where key_id = new.id;
  if new.revoked_at is not null then
    delete from confirmed_contacts where agent_id = new.agent_id and key_id = new.id;
  end if;
  return null;
end $$;
create trigger api_keys_end_owner_sessions after update on api_keys
  for each row when (new.backpack_id is null and (new.revoked_at is distinct from old.revoked_at
    or new.expires_at is distinct from old.expires_at))
  execute function end_owner_sessions();
