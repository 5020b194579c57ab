-- What one agent causes no longer takes up what others may tell the same owner.

-- What an owner must hear at once is counted by itself.
alter table alerts add column critical boolean not null default false;
drop index alerts_due;
create index alerts_due on alerts (channel, due_at) where state = 'pending';
create index alerts_waiting on alerts (agent_id, channel, address, due_at) where state = 'pending';

-- Requests to send test events, so that they can be counted.
create table webhook_tests (
  agent_id text not null,
  at timestamptz not null
);
create index webhook_tests_by_agent on webhook_tests (agent_id, at);
create index webhook_tests_by_time on webhook_tests (at);

-- Facts to be handed out once more, apart from the order of the others.
create table fan_out_again (
  event_id bigint primary key
);

create index dead_letters_replayed on dead_letters (replayed_at) where replayed_at is not null;
