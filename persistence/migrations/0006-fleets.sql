-- Pools that agents share, codes by which agents bring others, and credits that are given away.

create table fleets (
  fleet_id uuid primary key,
  owner_id uuid not null,
  name text not null,
  created_at timestamptz not null
);
create index fleets_by_owner on fleets (owner_id, fleet_id);

-- An agent is in one fleet for good: the key decides between two that take it at once.
create table fleet_members (
  agent_id uuid primary key,
  fleet_id uuid not null,
  joined_at timestamptz not null
);
create index fleet_members_by_fleet on fleet_members (fleet_id, joined_at);

-- Where a fleet takes USDC; sealed like the wallets of agents, for the fleet's id.
create table fleet_wallets (
  fleet_id uuid not null,
  address text not null,
  sealed bytea not null,
  key_id text not null,
  created_at timestamptz not null,
  primary key (fleet_id, address)
);
create unique index fleet_wallets_by_address on fleet_wallets (lower(address));

create table referral_codes (
  code text primary key,
  agent_id uuid not null unique,
  created_at timestamptz not null
);
create index agents_by_referral on agents (referral_code) where referral_code is not null;
-- What a referrer's agents have brought, and what was paid out of it.
create index transfers_accrued on transfers (credit) include (amount_micros)
  where credit like 'referral:%';
create index transfers_paid_out on transfers (debit) include (amount_micros)
  where debit like 'referral:%';
create index transfers_rewards on transfers (credit) include (amount_micros)
  where kind = 'referral';

create table drops (
  code text primary key,
  opened_at timestamptz not null,
  expires_at timestamptz not null
);
create index drops_by_time on drops (opened_at);

insert into stageable values ('fleets'), ('fleet_members'), ('fleet_wallets'), ('drops');
