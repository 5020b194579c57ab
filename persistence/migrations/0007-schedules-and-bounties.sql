-- Schedules and their runs; bounties with rewards in escrow.

-- The tool input of a schedule: immutable, and too large for a snapshot that every run writes.
create table schedule_params (
  schedule_id uuid primary key,
  agent_id uuid not null,
  params text not null,
  -- The input with its credentials, sealed; `params` then leaves them out.
  sealed bytea
);
create index schedule_params_by_agent on schedule_params (agent_id);
select guard_sealed('schedule_params', 'sealed');

-- One row a finished run, in the commit of its charge. A slot is the instant the run was due.
create table schedule_runs (
  schedule_id uuid not null,
  slot timestamptz not null,
  agent_id uuid not null,
  call_id uuid,
  ok boolean not null,
  error_code text,
  cost_micros bigint not null,
  budget_micros bigint not null,
  result text,
  at timestamptz not null,
  primary key (schedule_id, slot)
);
create index schedule_runs_by_agent on schedule_runs (agent_id, schedule_id, slot);
create index schedule_runs_by_time on schedule_runs (at);

-- The timer of a schedule stays until its slot has ended; the schedule worker fires it.
create index timers_schedules on timers (due_at) where command = 'schedule.run';

-- Bounties are staged by commands; the actor of a bounty decides, lists read these tables.
create table bounties (
  bounty_id uuid primary key,
  poster_id uuid not null,
  title text not null,
  description text not null,
  domain text not null,
  required_keywords text[] not null,
  min_quality int not null,
  reward_micros bigint not null,
  -- The promotional part of the reward.
  promo_micros bigint not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  -- Set by the trigger below.
  status text not null,
  closed_reason text,
  closed_at timestamptz,
  claimed_by uuid
);
create index bounties_by_status on bounties (status, bounty_id);
create index bounties_by_poster on bounties (poster_id, bounty_id);
create index bounties_by_claimer on bounties (claimed_by, bounty_id) where claimed_by is not null;

-- The end of each bounty; `content` is the submission for the poster.
create table bounty_closures (
  bounty_id uuid primary key,
  status text not null,
  reason text not null,
  claimed_by uuid,
  content text,
  quality int,
  at timestamptz not null
);

create function close_bounty() returns trigger language plpgsql as $$
begin
  update bounties set status = new.status, closed_reason = new.reason, closed_at = new.at,
      claimed_by = new.claimed_by
    where bounty_id = new.bounty_id;
  return null;
end $$;
create trigger bounty_closures_apply after insert on bounty_closures
  for each row execute function close_bounty();

insert into stageable values ('schedule_params'), ('schedule_runs'), ('bounties'), ('bounty_closures');
