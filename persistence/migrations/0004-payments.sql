-- Payments on other rails: what shows that a payer agreed, what a chain has brought, and the lane of
-- each key that submits transactions.

-- The proof of each claim; a payment that was released may be claimed again, hence the number.
create table settlements (
  id text not null,
  claim int not null,
  payer text not null,
  chain text not null,
  asset text not null,
  nonce text not null,
  -- Atomic units: up to 2^256, so text.
  amount text not null,
  price_micros bigint not null,
  -- Not earlier than at this block was it used on its chain.
  from_block bigint not null,
  payment text not null,
  agent_id uuid,
  purpose text not null,
  created_at timestamptz not null,
  primary key (id, claim)
);
create index settlements_by_nonce on settlements (chain, asset, payer, nonce);
create trigger settlements_append_only before update or delete on settlements
  for each row execute function refuse_change();

-- Every movement on a chain that was booked, once over all ways to pay (decision 30).
create table chain_moves (
  chain text not null,
  tx text not null,
  log_index int not null,
  kind text not null,
  -- What it was booked for: a settlement, a deposit.
  ref text not null,
  at timestamptz not null,
  primary key (chain, tx, log_index)
);
create index chain_moves_by_ref on chain_moves (ref);

-- The settlements that somebody still has to look after.
create index settlements_open on actors (aggregate_id, id)
  where kind = 'settlement' and not at_rest;

-- A key that submits transactions: its next nonce is given out here, never by a node's mempool.
create table settlers (
  chain text not null,
  address text not null,
  next_nonce bigint not null,
  primary key (chain, address)
);

-- Signed transactions, stored before they are sent. A nonce that was given out is used: sent again,
-- at a higher fee, or by a transfer of nothing to itself. `replaced_by` names the row that took over.
create table settler_txs (
  id uuid primary key,
  chain text not null,
  settler text not null,
  nonce bigint not null,
  purpose text not null,
  attempt int not null,
  raw text not null,
  hash text not null,
  -- Wei for each unit of gas, decimal.
  max_fee text not null,
  priority_fee text not null,
  -- signed, mined, reverted, void
  state text not null,
  created_at timestamptz not null,
  replaced_by uuid
);
create unique index settler_txs_nonce on settler_txs (chain, settler, nonce)
  where replaced_by is null;
create unique index settler_txs_purpose on settler_txs (chain, purpose, attempt)
  where replaced_by is null;
create index settler_txs_open on settler_txs (chain, settler, nonce)
  where replaced_by is null and state = 'signed';
create index settler_txs_by_purpose on settler_txs (purpose, attempt);

insert into stageable values ('settlements'), ('chain_moves');
