-- Who an agent is: its profile, its keys, its wallets; and what its Backpacks keep for it.

create table agents (
  agent_id uuid primary key,
  name text not null,
  description text,
  framework text,
  tool_category text,
  preferred_payment text,
  referral_code text,
  contact_email text,
  owner_email text,
  owner_telegram text,
  source text,
  created_at timestamptz not null
);

-- A key is kept as its HMAC only; `prefix` is what its owner recognises it by.
create table api_keys (
  id uuid primary key,
  agent_id uuid not null,
  hash bytea not null unique,
  prefix text not null,
  name text not null,
  scopes text[] not null,
  cap_micros bigint check (cap_micros >= 0),
  expires_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz not null
);
create index api_keys_by_agent on api_keys (agent_id, id);

create table wallets (
  agent_id uuid not null,
  address text not null,
  sealed bytea not null,
  key_id text not null,
  created_at timestamptz not null,
  status text not null,
  primary key (agent_id, address)
);
create unique index wallets_by_address on wallets (lower(address));

create table keyring (
  backpack_id text not null,
  name text not null,
  sealed bytea not null,
  hosts text[] not null,
  created_at timestamptz not null,
  primary key (backpack_id, name)
);

create table clipboard (
  backpack_id text not null,
  key text not null,
  value jsonb not null,
  expires_at timestamptz,
  updated_at timestamptz not null,
  primary key (backpack_id, key)
);
create index clipboard_expiring on clipboard (expires_at) where expires_at is not null;

insert into stageable values ('agents'), ('api_keys'), ('wallets');
