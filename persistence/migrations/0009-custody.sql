-- What hangs on the master key, how a key is taken out of use, and what becomes of custodial wallets.

-- Keys that must not change when the master key does: hashes, signatures and pseudonyms of years stand
-- on them. Each is sealed by the master key like any other secret.
create table station_keys (
  purpose text primary key,
  sealed bytea not null,
  created_at timestamptz not null default now()
);

-- The master keys this database has known, by the id that envelopes name. One that is retired seals
-- nothing any more, whoever still holds it.
create table master_keys (
  key_id text primary key,
  seen_at timestamptz not null default now(),
  retired_at timestamptz
);

-- Any constant, the same on all nodes. Writers of envelopes share it; retiring a key waits for them.
create function demand_working_keys(used text[]) returns void language plpgsql as $$
declare
  gone text;
begin
  perform pg_advisory_xact_lock_shared(84020009);
  select key_id into gone from master_keys where key_id = any(used) and retired_at is not null limit 1;
  if gone is not null then
    raise exception 'master key % is retired: give this node the new one and restart it', gone
      using errcode = 'object_not_in_prerequisite_state';
  end if;
end $$;

-- For an envelope inside of a text: the text, once its key is known to be in use.
create function sealed_text(key_id text, value text) returns text language plpgsql as $$
begin
  perform demand_working_keys(array[key_id]);
  return value;
end $$;

-- An envelope names its key in the four bytes after its version.
create function check_sealed() returns trigger language plpgsql as $$
declare
  used text[];
begin
  -- What stays as it was is not written anew: rows under an old key go on being used until they are resealed.
  execute format('select array_agg(distinct encode(substring(%1$I from 3 for 4), ''hex'')) from (select %1$I from fresh '
    || case tg_op when 'UPDATE' then 'except select %1$I from before' else '' end || ') changed', tg_argv[0]) into used;
  perform demand_working_keys(used);
  return null;
end $$;

-- Refuses envelopes of a retired key in a column; each table that keeps envelopes asks for it.
create function guard_sealed(kept text, col text) returns void language plpgsql as $$
begin
  execute format('create trigger %I after insert on %I referencing new table as fresh
    for each statement execute function check_sealed(%L)', kept || '_' || col || '_added', kept, col);
  execute format('create trigger %I after update on %I referencing old table as before new table as fresh
    for each statement execute function check_sealed(%L)', kept || '_' || col || '_changed', kept, col);
end $$;
select guard_sealed('station_keys', 'sealed');
select guard_sealed('wallets', 'sealed');
select guard_sealed('fleet_wallets', 'sealed');
select guard_sealed('keyring', 'sealed');

-- Whose Backpack a secret belongs to is part of its envelope.
create index actors_backpacks on actors (id) where kind = 'backpack';

-- Which requests an export has answered (an Idempotency-Key, or the API key of one without): a repetition
-- gets the same wallet. The wallet's key is forgotten when its owner has it, or a day later.
alter table wallet_exports add column requests text[] not null default '{}';
alter table wallet_exports add column forgotten_at timestamptz;
create index wallet_exports_kept on wallet_exports (done_at) where state = 'done' and forgotten_at is null;

-- Where the top-ups of fleets went, read from final blocks: to the fleet's own wallet, whose money is
-- swept like that of agents, or (address is null) past it.
create table fleet_arrivals (
  chain text not null,
  tx text not null,
  log_index int not null,
  fleet_id uuid not null,
  address text,
  amount_micros bigint not null,
  at timestamptz not null,
  primary key (chain, tx, log_index)
);
create index fleet_arrivals_by_address on fleet_arrivals (chain, address) where address is not null;
create index chain_moves_of_fleets on chain_moves (chain, tx, log_index) where kind = 'fleet_topup';
comment on column sweeps.agent_id is 'the agent or the fleet whose wallet it is';
