-- Webhooks of agents, pagers of Backpacks, and alerts to owners by e-mail and chat.

-- A receiver: an address that an agent registered, or (backpack_id) the pager of a Backpack, whose address
-- is read from the Backpack at each attempt. `due_at` is the next attempt, null while nothing waits; a
-- lease is one attempt of one node.
create table webhooks (
  id text primary key,
  agent_id text not null,
  backpack_id text unique,
  url text not null,
  events text[] not null,
  sealed bytea not null,
  sealed_before bytea,
  before_until timestamptz,
  state text not null check (state in ('active', 'disabled')),
  disabled_reason text,
  disabled_at timestamptz,
  failures int not null default 0,
  failing_since timestamptz,
  last_ms int not null default 0,
  dropped bigint not null default 0,
  due_at timestamptz,
  lease uuid,
  lease_until timestamptz,
  created_at timestamptz not null
) with (fillfactor = 70);
create index webhooks_by_agent on webhooks (agent_id, id);
create index webhooks_due on webhooks (due_at) where state = 'active' and due_at is not null;

-- One event for one receiver. `seq` is the sending order; later events may pass one that is `aside` after
-- repeated failures.
create table deliveries (
  id text primary key,
  seq bigint generated always as identity,
  webhook_id text not null,
  event_id bigint,
  type text not null,
  data jsonb not null,
  at timestamptz not null,
  state text not null check (state in ('pending', 'delivered', 'failed')),
  attempts int not null default 0,
  answered int not null default 0,
  aside boolean not null default false,
  due_at timestamptz not null,
  status int,
  error text,
  ms int,
  last_at timestamptz,
  settled_at timestamptz,
  created_at timestamptz not null,
  unique (webhook_id, event_id)
) with (fillfactor = 80);
create index deliveries_by_webhook on deliveries (webhook_id, seq);
create index deliveries_pending on deliveries (webhook_id, seq) where state = 'pending';
create index deliveries_settled on deliveries (settled_at) where state <> 'pending';

-- Requests to send test events, for their rate limit.
create table webhook_tests (
  agent_id text not null,
  at timestamptz not null
);
create index webhook_tests_by_agent on webhook_tests (agent_id, at);
create index webhook_tests_by_time on webhook_tests (at);

-- Agents with a stream of events, or with a cursor of one that may still be resumed. Only with a row here,
-- or with a webhook, do commits store events that nobody else is told. Cursors below `lost_through`
-- are older than the row: they have a gap.
create table event_listeners (
  agent_id text primary key,
  until timestamptz not null,
  lost_through bigint not null
);
create index event_listeners_by_time on event_listeners (until);

-- Begins to listen, or goes on. A commit that cannot have seen the row has ended before it is there.
create function listen_to_events(agent text, days int) returns bigint language plpgsql as $$
declare
  lost bigint;
begin
  select lost_through into lost from event_listeners
   where agent_id = agent and until > now() + make_interval(days => days + 1);
  if found then
    return lost;
  end if;
  update event_listeners set until = now() + make_interval(days => days + 2)
   where agent_id = agent returning lost_through into lost;
  if found then
    return lost;
  end if;
  perform from aggregates where id = agent for share;
  insert into event_listeners values (agent, now() + make_interval(days => days + 2),
      coalesce(pg_sequence_last_value(pg_get_serial_sequence('outbox', 'id')::regclass), 0))
    on conflict (agent_id) do update set until = excluded.until returning lost_through into lost;
  return lost;
end $$;

create function webhook_listens() returns trigger language plpgsql as $$
begin
  perform from aggregates where id = new.agent_id for share;
  return new;
end $$;
create trigger webhooks_listen before insert on webhooks
  for each row when (new.backpack_id is null) execute function webhook_listens();

-- The last outbox event that was routed to receivers. Its row lock lets one node at a time route.
create table event_routing_cursor (
  name text primary key,
  position bigint not null
);
insert into event_routing_cursor values ('outbox', 0);

-- Events to route once more, outside the order of the others.
create table event_routing_retries (
  event_id bigint primary key
);

-- Alerts to owners. `key` makes each unique; a digest collects several lines until it is due.
create table alerts (
  id text primary key,
  key text not null unique,
  agent_id text not null,
  topic text not null,
  channel text not null check (channel in ('email', 'telegram')),
  address text,
  subject text not null,
  body text not null,
  lines int not null default 1,
  state text not null check (state in ('pending', 'sent', 'failed', 'not_sent')),
  reason text,
  attempts int not null default 0,
  due_at timestamptz not null,
  lease_until timestamptz,
  created_at timestamptz not null,
  settled_at timestamptz,
  -- Critical alerts have a limit of their own.
  critical boolean not null default false,
  -- Where a POST ends messages of this kind to the address (RFC 8058).
  unsubscribe_url text
) with (fillfactor = 80);
create index alerts_by_agent on alerts (agent_id, created_at);
create index alerts_sent on alerts (channel, address, settled_at) where state = 'sent';
create index alerts_settled on alerts (settled_at) where state <> 'pending';
create index alerts_due on alerts (channel, due_at) where state = 'pending';
create index alerts_waiting on alerts (agent_id, channel, address, due_at) where state = 'pending';

-- The last alert of each threshold and channel: deduplicates over nodes for twelve hours.
create table alert_cooldowns (
  agent_id text not null,
  level text not null,
  channel text not null,
  sent boolean not null,
  at timestamptz not null,
  primary key (agent_id, level, channel)
);

-- Addresses that get no e-mail, in lower case. `bounced`: the mail server rejected the mailbox; applies for
-- a while and to mail from callers. `asked`: unsubscribed, set by the operator; permanent, alerts too.
create table mail_suppressions (
  address text primary key check (address = lower(address)),
  reason text not null check (reason in ('bounced', 'asked')),
  -- The reply code of the mail server.
  smtp_status int,
  at timestamptz not null default now()
);
create index mail_suppressions_bounced on mail_suppressions (at) where reason = 'bounced';

select guard_sealed('webhooks', 'sealed');
select guard_sealed('webhooks', 'sealed_before');
