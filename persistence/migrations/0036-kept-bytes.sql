-- The bytes of answers to plain writes that are kept for an agent under Idempotency-Keys, by UTC day.
-- Those of calls and commands are counted in the quota of the agent itself.
create table kept_bytes (
  agent_id uuid   not null,
  day      date   not null,
  bytes    bigint not null check (bytes > 0),
  primary key (agent_id, day)
);
