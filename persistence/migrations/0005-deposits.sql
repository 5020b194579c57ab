-- Money that a chain brings to the wallets of agents: how far it has been read, what has arrived, what
-- has been moved on to the treasury, and who was given the key of a wallet.

-- How far a chain has been read. A reader that finds another `next_block` than it began with was late.
create table chain_checkpoints (
  chain text primary key,
  next_block bigint not null,
  finalized bigint not null,
  at timestamptz not null
);

-- The blocks that were read and may still be replaced, and one that may not: where two histories part.
create table chain_blocks (
  chain text not null,
  number bigint not null,
  hash text not null,
  primary key (chain, number)
);

-- Transfers of USDC to wallets; addresses in lower case. One whose block was replaced is `reorged`,
-- and is credited again when it is seen again: `times` counts how often it was.
create table deposits (
  chain text not null,
  tx text not null,
  log_index int not null,
  id uuid not null unique,
  agent_id uuid not null,
  address text not null,
  sender text not null,
  amount_micros bigint not null check (amount_micros > 0),
  block bigint not null,
  block_hash text not null,
  state text not null check (state in ('provisional', 'final', 'reorged')),
  times int not null,
  seen_at timestamptz not null,
  credited_at timestamptz not null,
  primary key (chain, tx, log_index)
);
create index deposits_by_agent on deposits (agent_id, id);
create index deposits_by_address on deposits (chain, address);
create index deposits_provisional on deposits (chain, block) where state = 'provisional';

-- Credited money on its way from a wallet to the treasury. The terms are kept, the signature is not:
-- it is made anew from the wallet's key whenever it is needed.
create table sweeps (
  id uuid primary key,
  chain text not null,
  agent_id uuid not null,
  address text not null,
  amount_micros bigint not null check (amount_micros > 0),
  state text not null check (state in ('open', 'done', 'failed')),
  -- to, nonce, valid_before (seconds), from_block: with address and amount, what the wallet signs.
  authorization_terms jsonb not null,
  tx text,
  log_index int,
  block bigint,
  started_at timestamptz not null,
  ended_at timestamptz
);
create unique index sweeps_open on sweeps (chain, address) where state = 'open';
create index sweeps_by_address on sweeps (chain, address);

-- Who asked for the key of a wallet, and how far that went.
create table wallet_exports (
  id uuid primary key,
  agent_id uuid not null,
  address text not null,
  key_id uuid not null,
  state text not null check (state in ('started', 'done')),
  new_address text,
  swept_micros bigint not null default 0,
  requested_at timestamptz not null,
  done_at timestamptz
);
create index wallet_exports_by_agent on wallet_exports (agent_id, requested_at);
create unique index wallet_exports_open on wallet_exports (agent_id) where state = 'started';

-- A wallet is `active`, then perhaps `exporting` and `exported`: only an active one takes deposits.
create unique index wallets_active on wallets (agent_id) where status = 'active';
