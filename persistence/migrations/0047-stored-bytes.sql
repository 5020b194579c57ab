-- The bytes an agent has stored in clipboards and keyrings, by UTC day.
create table stored_bytes (
  agent_id uuid   not null,
  day      date   not null,
  bytes    bigint not null check (bytes > 0),
  primary key (agent_id, day)
);
