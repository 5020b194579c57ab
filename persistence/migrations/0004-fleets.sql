-- Fleets with shared pools, and promotional credits.

create table fleets (
  fleet_id uuid primary key,
  owner_id uuid not null,
  name text not null,
  created_at timestamptz not null,
  -- Numbers the fleets of an owner from 1, so that concurrent creations cannot exceed the limit.
  ordinal int
);
create index fleets_by_owner on fleets (owner_id, fleet_id);
create unique index fleets_by_ordinal on fleets (owner_id, ordinal);

-- The primary key allows one fleet an agent.
create table fleet_members (
  agent_id uuid primary key,
  fleet_id uuid not null,
  joined_at timestamptz not null
);
create index fleet_members_by_fleet on fleet_members (fleet_id, joined_at);

-- Members that left or were removed by the owner. The row is staged in the commit of the agent and frees
-- its membership.
create table fleet_departures (
  agent_id uuid not null,
  fleet_id uuid not null,
  left_at timestamptz not null,
  -- The owner that removed it; null where the agent left.
  removed_by uuid
);
create index fleet_departures_by_fleet on fleet_departures (fleet_id, left_at);

-- Paused schedules of fleet members without credits; each resumes when the pool can lend the price of a
-- run. Staged with the pause; `slot` is the run that was skipped.
create table underfunded_schedules (
  schedule_id uuid not null,
  slot bigint not null,
  agent_id uuid not null,
  primary key (schedule_id, slot)
);

-- Tables of one commit are written in no fixed order. If a schedule pauses in the commit in which its agent leaves,
-- its row may be inserted after the departure has deleted the others. When the agent joins a fleet again, the row is
-- staged again: the old one is kept.
create function keep_underfunded_schedule() returns trigger language plpgsql as $$
begin
  if exists (select from underfunded_schedules where schedule_id = new.schedule_id and slot = new.slot) then
    return null;
  end if;
  return new;
end $$;
create trigger underfunded_schedules_once before insert on underfunded_schedules
  for each row execute function keep_underfunded_schedule();

create function leave_fleet() returns trigger language plpgsql as $$
begin
  delete from fleet_members where agent_id = new.agent_id and fleet_id = new.fleet_id;
  -- Its paused schedules no longer wait for the pool of the fleet.
  delete from underfunded_schedules where agent_id = new.agent_id;
  return null;
end $$;
create trigger fleet_departures_member after insert on fleet_departures
  for each row execute function leave_fleet();

-- Addresses where a fleet receives USDC; sealed like wallets, with the fleet's id.
create table fleet_wallets (
  fleet_id uuid not null,
  address text not null,
  sealed bytea not null,
  key_id text not null,
  created_at timestamptz not null,
  primary key (fleet_id, address)
);
create unique index fleet_wallets_by_address on fleet_wallets (lower(address));
select guard_sealed('fleet_wallets', 'sealed');

-- Codes for gifts of promotional credits.
create table drops (
  code text primary key,
  opened_at timestamptz not null,
  expires_at timestamptz not null
);
create index drops_by_time on drops (opened_at);

-- Transfers of promotional credits between agents, allowed by PROMO_TRANSFERABLE.
create table promo_transfers (
  transfer_id uuid not null,
  at timestamptz not null
);
create unique index promo_transfers_by_transfer on promo_transfers (transfer_id);

-- Credits granted by the operator (gas grant). The id makes a repetition one grant.
create table operator_grants (
  grant_id uuid primary key,
  agent_id uuid not null,
  amount_micros bigint not null,
  note text not null,
  granted_by text not null,
  at timestamptz not null
);
create index operator_grants_by_agent on operator_grants (agent_id, grant_id);

insert into stageable values ('fleets'), ('fleet_members'), ('fleet_departures'), ('fleet_wallets'),
  ('underfunded_schedules'), ('drops'), ('promo_transfers'), ('operator_grants');
