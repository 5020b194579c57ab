-- What each arrival has brought its agent, in the order in which the agent took it in. A deposit below
-- the minimum brings nothing by itself: the next row of the agent that credits something credits it too.
create table deposit_credits (
  id uuid primary key,
  agent_id uuid not null,
  -- Names the arrival: chain, transaction, log index and block of a deposit, or a settlement.
  arrival text not null,
  amount_micros bigint not null check (amount_micros > 0),
  credited_micros bigint not null check (credited_micros >= 0),
  bonus_micros bigint not null check (bonus_micros >= 0),
  at timestamptz not null
);
create index deposit_credits_by_arrival on deposit_credits (arrival);
create index deposit_credits_crediting on deposit_credits (agent_id, at, id) where credited_micros > 0;
insert into stageable values ('deposit_credits');

-- When the ledger took a deposit in; whether it was credited is told by `deposit_credits`.
alter table deposits rename column credited_at to booked_at;
