-- Agents: profile, API keys, wallets, stored data of their Backpacks, daily storage, referral codes.

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
  created_at timestamptz not null,
  -- Whether the owner agreed that public pages name the agent.
  discoverable boolean not null default false
);
create index agents_discoverable on agents (agent_id) where discoverable;
create index agents_by_referral on agents (referral_code) where referral_code is not null;

-- A key is stored as its HMAC only; `prefix` lets its owner recognise it.
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
  created_at timestamptz not null,
  -- The only Backpack the key may act in; null: any.
  backpack_id text,
  -- Limits for each UTC day and each UTC month.
  cap_per_day_micros bigint check (cap_per_day_micros >= 0),
  cap_per_month_micros bigint check (cap_per_month_micros >= 0),
  -- The key whose spending a rotated key continues; null: its own.
  spending_id uuid,
  -- The family of keys that replaced each other. Schedules run as the latest key of the family. A rotation
  -- after a leak starts a new family, so schedules made with the leaked key stop.
  family_id uuid
);
create index api_keys_by_agent on api_keys (agent_id, id);
create index api_keys_by_spending on api_keys (coalesce(spending_id, id));
create index api_keys_by_family on api_keys (coalesce(family_id, spending_id, id));

-- A wallet is `active`, then `exporting` and `exported`. Only an active wallet takes deposits.
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
create unique index wallets_active on wallets (agent_id) where status = 'active';

create table keyring (
  backpack_id text not null,
  name text not null,
  sealed bytea not null,
  hosts text[] not null,
  created_at timestamptz not null,
  -- The owner of the Backpack: a Backpack of another agent with the same id reads nothing.
  agent_id text,
  primary key (backpack_id, name)
);
-- The envelope of a secret names the agent of its Backpack.
create index actors_backpacks on actors (id) where kind = 'backpack';

create table clipboard (
  backpack_id text not null,
  key text not null,
  value jsonb not null,
  expires_at timestamptz,
  updated_at timestamptz not null,
  primary key (backpack_id, key)
);
create index clipboard_expiring on clipboard (expires_at) where expires_at is not null;

-- Calls that Backpacks refused: one row for each tool, code and minute.
create table backpack_refusals (
  id uuid primary key,
  backpack_id text not null,
  tool text not null,
  code text not null,
  minute timestamptz not null,
  times int not null,
  last_at timestamptz not null,
  unique (backpack_id, tool, code, minute)
);
create index backpack_refusals_listed on backpack_refusals (backpack_id, id);
create index backpack_refusals_by_time on backpack_refusals (last_at);

-- The latest rejections of each agent by machines, equal ones counted: what `why_url` explains.
create table refusals (
  id uuid primary key,
  agent_id uuid not null,
  key_id uuid,
  code text not null,
  times int not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  data jsonb not null
);
create index refusals_by_agent on refusals (agent_id, last_at desc);
create index refusals_by_time on refusals (last_at);

-- One-time codes that open the inspector, by their hashes.
create table inspector_codes (
  hash text primary key,
  expires_at timestamptz not null
);

-- Bytes an agent stored in clipboards and keyrings, by UTC day.
create table daily_storage_bytes (
  agent_id uuid   not null,
  day      date   not null,
  bytes    bigint not null check (bytes > 0),
  primary key (agent_id, day)
);

-- Bytes of stored responses of plain writes with an Idempotency-Key, by agent and UTC day. Responses of
-- calls and commands count in the daily quota of the agent.
create table daily_reply_bytes (
  agent_id uuid   not null,
  day      date   not null,
  bytes    bigint not null check (bytes > 0),
  primary key (agent_id, day)
);

-- The sealed result of an onboarding with an Idempotency-Key, stored before it begins: a repetition, also
-- after a crash, returns the same agent and key.
create table idempotency_drafts (
  owner text not null,
  idempotency_key text not null,
  request_hash text not null,
  sealed bytea not null,
  at timestamptz not null default now(),
  primary key (owner, idempotency_key)
);
create index idempotency_drafts_by_time on idempotency_drafts (at);

create table referral_codes (
  code text primary key,
  agent_id uuid not null unique,
  created_at timestamptz not null
);
-- Referral rewards: accrued, paid out, and earned.
create index ledger_accrued on ledger (credit) include (amount_micros)
  where credit like 'referral:%';
create index ledger_paid_out on ledger (debit) include (amount_micros)
  where debit like 'referral:%';
create index ledger_rewards on ledger (credit) include (amount_micros)
  where kind = 'referral';

select guard_sealed('wallets', 'sealed');
select guard_sealed('keyring', 'sealed');
select guard_sealed('idempotency_drafts', 'sealed');
insert into stageable values ('agents'), ('api_keys'), ('wallets');
