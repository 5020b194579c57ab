-- What a chain has brought and may still take back: the blocks of these movements are not final.

-- Movements that were booked. A row goes when its block is final, or when the movement is undone.
create table unfinal_moves (
  id uuid primary key,
  chain text not null,
  tx text not null,
  log_index int not null,
  -- settlement, fleet_topup
  kind text not null,
  -- The settlement or the fleet.
  ref text not null,
  -- The aggregate that booked it and takes it back.
  receiver text not null,
  -- The token and whose it was, where they are known; lower case.
  asset text,
  sender text,
  -- Atomic units: up to 2^256, so text.
  amount text not null,
  -- What it brought besides, in promotional credits.
  bonus_micros bigint not null,
  -- Null until its transaction has been looked at.
  block bigint,
  block_hash text,
  at timestamptz not null
);
create index unfinal_moves_by_block on unfinal_moves (chain, block, block_hash);
create index unfinal_moves_by_ref on unfinal_moves (ref);

-- What a chain has undone, once each: the row takes the movement off the books in its own commit.
create table undone_moves (
  id uuid primary key,
  chain text not null,
  tx text not null,
  log_index int not null,
  kind text not null,
  ref text not null,
  at timestamptz not null
);
create trigger undone_moves_append_only before update or delete on undone_moves
  for each row execute function refuse_change();

create function take_move_off() returns trigger language plpgsql as $$
begin
  -- Its place is free again: on the new chain another transfer may stand there.
  delete from chain_moves where chain = new.chain and tx = new.tx and log_index = new.log_index
    and kind = new.kind and ref = new.ref;
  delete from unfinal_moves where id = new.id;
  return null;
end $$;
create trigger undone_moves_take_off after insert on undone_moves
  for each row execute function take_move_off();

insert into stageable values ('unfinal_moves'), ('undone_moves');
