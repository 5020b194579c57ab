-- Deposits to wallets, their sweeps to the treasury, and exports of wallet keys.

-- The next block to read of each chain. A reader that finds another `next_block` than it began with stops.
create table chain_checkpoints (
  chain text primary key,
  next_block bigint not null,
  finalized bigint not null,
  at timestamptz not null
);

-- Blocks that were read and are not final, and the last final one: finds where two histories diverge.
create table chain_blocks (
  chain text not null,
  number bigint not null,
  hash text not null,
  primary key (chain, number)
);

-- Transfers of USDC to wallets; addresses in lower case. A transfer of a replaced block is `reorged` and is
-- credited again when it reappears; `times` counts its appearances.
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
  -- When the ledger booked it. `deposit_credits` says whether it was credited.
  booked_at timestamptz not null,
  primary key (chain, tx, log_index)
);
create index deposits_by_agent on deposits (agent_id, id);
create index deposits_by_address on deposits (chain, address);
create index deposits_provisional on deposits (chain, block) where state = 'provisional';

-- The credits of each incoming transfer, in the order of the agent's commits. A deposit below the minimum
-- credits nothing; the agent's next row that credits something includes it.
create table deposit_credits (
  id uuid primary key,
  agent_id uuid not null,
  -- The incoming transfer: chain, transaction, log index and block of a deposit, or a settlement.
  arrival text not null,
  amount_micros bigint not null check (amount_micros > 0),
  credited_micros bigint not null check (credited_micros >= 0),
  bonus_micros bigint not null check (bonus_micros >= 0),
  at timestamptz not null
);
create index deposit_credits_by_arrival on deposit_credits (arrival);
create index deposit_credits_crediting on deposit_credits (agent_id, at, id) where credited_micros > 0;

-- Where fleet top-ups arrived, read from final blocks: a wallet of the fleet, which is swept like wallets of
-- agents, or (address is null) the treasury.
create table fleet_topups (
  chain text not null,
  tx text not null,
  log_index int not null,
  fleet_id uuid not null,
  address text,
  amount_micros bigint not null,
  at timestamptz not null,
  primary key (chain, tx, log_index)
);
create index fleet_topups_by_address on fleet_topups (chain, address) where address is not null;

-- Money on its way from a wallet to the treasury. The terms are stored and the signature is not: it is
-- made from the wallet's key when needed.
create table sweeps (
  id uuid primary key,
  chain text not null,
  agent_id uuid not null,
  address text not null,
  amount_micros bigint not null check (amount_micros > 0),
  state text not null check (state in ('open', 'done', 'failed')),
  -- to, nonce, valid_before (seconds), from_block: with address and amount, the signed message.
  authorization_terms jsonb not null,
  tx text,
  log_index int,
  block bigint,
  started_at timestamptz not null,
  ended_at timestamptz,
  -- Until its block is final, a reorganisation may return the money to the wallet.
  final_at timestamptz
);
create unique index sweeps_open on sweeps (chain, address) where state = 'open';
create index sweeps_by_address on sweeps (chain, address);
create index sweeps_unfinal on sweeps (chain, block) where state = 'done' and final_at is null;
comment on column sweeps.agent_id is 'the agent or the fleet whose wallet it is';

-- Exports of wallet keys.
create table wallet_exports (
  id uuid primary key,
  agent_id uuid not null,
  address text not null,
  key_id uuid not null,
  state text not null check (state in ('started', 'done')),
  new_address text,
  swept_micros bigint not null default 0,
  requested_at timestamptz not null,
  done_at timestamptz,
  -- The answered requests (an Idempotency-Key, or the API key of a request without one): a repetition
  -- returns the same wallet.
  requests text[] not null default '{}',
  -- When the sealed key was deleted: a day after `read_at`.
  forgotten_at timestamptz,
  -- When the key was first returned. An unread key is not deleted.
  read_at timestamptz
);
create index wallet_exports_by_agent on wallet_exports (agent_id, requested_at);
create unique index wallet_exports_open on wallet_exports (agent_id) where state = 'started';
create index wallet_exports_kept on wallet_exports (read_at) where state = 'done' and forgotten_at is null;

insert into stageable values ('deposit_credits');
