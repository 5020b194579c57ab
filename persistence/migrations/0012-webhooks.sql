-- Facts on their way to receivers: the addresses agents registered, what is delivered to each, and
-- what their owners are told by e-mail and chat.

-- A receiver. One that an agent registered, or (backpack_id) the pager of a Backpack, whose address is
-- the Backpack's own and is read from there at every attempt. `due_at` is when it wants an attempt next,
-- null while nothing waits for it; a lease is one attempt of one node.
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

-- One event for one receiver. `seq` is the order it goes out in; one that is `aside` was refused so often
-- that later ones may pass it.
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
create index deliveries_of on deliveries (webhook_id, seq);
create index deliveries_pending on deliveries (webhook_id, seq) where state = 'pending';
create index deliveries_settled on deliveries (settled_at) where state <> 'pending';

-- How far the outbox has been handed out. Its lock lets one node at a time do so.
create table fan_out (
  name text primary key,
  position bigint not null
);
insert into fan_out select 'outbox', coalesce(max(id), 0) from outbox;

-- What people are told. `key` makes each once; a digest collects several lines until it is due.
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
  settled_at timestamptz
) with (fillfactor = 80);
create index alerts_of on alerts (agent_id, created_at);
create index alerts_due on alerts (due_at) where state = 'pending';
create index alerts_sent on alerts (channel, address, settled_at) where state = 'sent';
create index alerts_settled on alerts (settled_at) where state <> 'pending';

-- When a threshold was last told on a channel: the row decides among nodes, and for twelve hours.
create table alert_marks (
  agent_id text not null,
  level text not null,
  channel text not null,
  told boolean not null,
  at timestamptz not null,
  primary key (agent_id, level, channel)
);

select guard_sealed('webhooks', 'sealed');
select guard_sealed('webhooks', 'sealed_before');
