-- Payments on chains: signed payments, booked transfers, transactions of settlers, reorganisations.

-- The signed payment of each claim. A released payment may be claimed again under the next number.
create table settlements (
  id text not null,
  claim int not null,
  payer text not null,
  chain text not null,
  asset text not null,
  nonce text not null,
  -- Atomic units up to 2^256, hence text.
  amount text not null,
  price_micros bigint not null,
  -- The nonce was unused before this block.
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
-- Answers of calls that wait for their payment: the rows that its settlement writes.
create table withheld_answers (
  settlement text primary key,
  answer text not null,
  at timestamptz not null
);

-- Settlements with open work.
create index settlements_open on actors (aggregate_id, id)
  where kind = 'settlement' and not archived;

-- Every transfer on a chain that the ledger booked, once over all payment methods (decision 30).
create table chain_transfers (
  chain text not null,
  tx text not null,
  log_index int not null,
  kind text not null,
  -- The settlement or deposit it was booked for.
  ref text not null,
  at timestamptz not null,
  primary key (chain, tx, log_index)
);
create index chain_transfers_by_ref on chain_transfers (ref);
create index chain_transfers_fleet_topups on chain_transfers (chain, tx, log_index) where kind = 'fleet_topup';

-- Transfers that were booked from a block that is not final. Removed when the block is final, or when the
-- transfer is reverted.
create table unfinalized_transfers (
  id uuid primary key,
  chain text not null,
  tx text not null,
  log_index int not null,
  -- settlement, fleet_topup
  kind text not null,
  -- The settlement or the fleet.
  ref text not null,
  -- The aggregate that booked it and reverts it.
  receiver text not null,
  -- The token and the sender where known; lower case.
  asset text,
  sender text,
  -- Atomic units up to 2^256, hence text.
  amount text not null,
  -- The promotional credits it added.
  bonus_micros bigint not null,
  -- Null until its transaction has been read.
  block bigint,
  block_hash text,
  at timestamptz not null
);
create index unfinalized_transfers_by_block on unfinalized_transfers (chain, block, block_hash);
create index unfinalized_transfers_by_ref on unfinalized_transfers (ref);

-- Transfers that a reorganisation removed, once each: the row reverts the booking in the same commit.
create table reverted_transfers (
  id uuid primary key,
  chain text not null,
  tx text not null,
  log_index int not null,
  kind text not null,
  ref text not null,
  at timestamptz not null
);
create trigger reverted_transfers_append_only before update or delete on reverted_transfers
  for each row execute function refuse_change();

create function remove_reverted_transfer() returns trigger language plpgsql as $$
begin
  -- Another transfer may have the same (chain, tx, log_index) on the new chain.
  delete from chain_transfers where chain = new.chain and tx = new.tx and log_index = new.log_index
    and kind = new.kind and ref = new.ref;
  delete from unfinalized_transfers where id = new.id;
  return null;
end $$;
create trigger reverted_transfers_remove_booking after insert on reverted_transfers
  for each row execute function remove_reverted_transfer();

-- Keys that submit transactions. Nonces are assigned here, never by a node's mempool.
create table settlers (
  chain text not null,
  address text not null,
  next_nonce bigint not null,
  primary key (chain, address)
);

-- Signed transactions, stored before they are sent. An assigned nonce is always used: the transaction is
-- sent again, with a higher fee, or replaced by an empty transfer to itself. `replaced_by` is its successor.
create table settler_txs (
  id uuid primary key,
  chain text not null,
  settler text not null,
  nonce bigint not null,
  raw text not null,
  hash text not null,
  -- Wei per unit of gas, decimal.
  max_fee text not null,
  priority_fee text not null,
  -- signed, mined, reverted, void
  state text not null,
  created_at timestamptz not null,
  replaced_by uuid
);
create unique index settler_txs_nonce on settler_txs (chain, settler, nonce)
  where replaced_by is null;
create index settler_txs_open on settler_txs (chain, settler, nonce)
  where replaced_by is null and state = 'signed';
-- All transactions of a nonce, replaced ones too: any of them may be mined.
create index settler_txs_by_nonce on settler_txs (chain, settler, nonce);

-- The settlements of each nonce: one transaction may settle several payments. Each attempt of a purpose
-- has one nonce, whichever key signs it.
create table settler_tx_settlements (
  chain text not null,
  -- A settlement, a sweep.
  purpose text not null,
  attempt int not null,
  settler text not null,
  nonce bigint not null,
  primary key (chain, purpose, attempt)
);
create index settler_tx_settlements_by_nonce on settler_tx_settlements (chain, settler, nonce);

insert into stageable values ('settlements'), ('withheld_answers'), ('chain_transfers'), ('unfinalized_transfers'), ('reverted_transfers');
