-- Members that left their fleet, or were removed by its owner. A row is staged in the commit of the
-- agent; it makes room in the directory, so that the agent can join another fleet.
create table fleet_leaves (
  agent_id uuid not null,
  fleet_id uuid not null,
  left_at timestamptz not null,
  -- The owner that removed it; null where the agent left by itself.
  removed_by uuid
);
create index fleet_leaves_by_fleet on fleet_leaves (fleet_id, left_at);

create function leave_fleet() returns trigger language plpgsql as $$
begin
  delete from fleet_members where agent_id = new.agent_id and fleet_id = new.fleet_id;
  -- Paused schedules of the agent wait for the pool of its fleet no longer.
  delete from schedules_short where agent_id = new.agent_id;
  return null;
end $$;
create trigger fleet_leaves_member after insert on fleet_leaves
  for each row execute function leave_fleet();

insert into stageable values ('fleet_leaves');
