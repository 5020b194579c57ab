-- Schedules of fleet members that have stopped for want of credits: they go on when the pool can
-- lend what a run costs. A row is staged with the pause; the slot that was not run names it.

create table schedules_short (
  schedule_id uuid not null,
  slot bigint not null,
  agent_id uuid not null,
  primary key (schedule_id, slot)
);

insert into stageable values ('schedules_short');

insert into schedules_short
  select s.id::uuid, (s.state->'context'->>'ended')::bigint, s.aggregate_id::uuid
    from actors s join fleet_members m on m.agent_id::text = s.aggregate_id
   where s.kind = 'schedule' and s.state->>'value' = 'paused';
