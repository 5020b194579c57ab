-- What failed for good, whatever kind of work it was: seen and replayed with `gas dlq`.
create table dead_letters (
  id uuid primary key,
  kind text not null,
  key text not null,
  reason text not null,
  payload jsonb not null,
  at timestamptz not null default now(),
  replayed_at timestamptz
);
create unique index dead_letters_open on dead_letters (kind, key) where replayed_at is null;
create index dead_letters_by_time on dead_letters (at);

-- What a schedule asks its tool: never changed, and too large for a snapshot that every run writes.
create table schedule_params (
  schedule_id uuid primary key,
  agent_id uuid not null,
  params text not null
);
create index schedule_params_by_agent on schedule_params (agent_id);

-- One row a run that ended, in the commit of its charge. A slot is the instant the run was due.
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

-- The timer of a schedule stays until its slot has ended; it is not fired like the others.
create index timers_schedules on timers (due_at) where command = 'schedule.run';

insert into stageable values ('schedule_params'), ('schedule_runs');
