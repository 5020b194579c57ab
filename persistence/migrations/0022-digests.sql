-- Milestones of public agents, and weekly digests to owners.

-- What public agents have reached: one row each, posted by the roll-up of the public figures.
create table milestones (
  agent_id uuid not null,
  milestone text not null,
  posted_at timestamptz not null,
  primary key (agent_id, milestone)
);
create index milestones_by_time on milestones (posted_at desc);

-- The Monday of the last week whose digest of an agent was written, or had nothing to say.
create table weekly_digests (
  agent_id uuid primary key,
  week date not null
);

-- Addresses that got a digest, in lower case, with the token of their unsubscribe link.
create table digest_addresses (
  email text primary key check (email = lower(email)),
  token text not null unique,
  unsubscribed_at timestamptz
);
