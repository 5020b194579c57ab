-- Public pages: figures, summed from the ledger and the call log after the commits; signatures and badges.

-- Tool calls and prices by minute, for the figures of the last 24 hours. Older minutes are removed.
create table statistics_minutes (
  minute timestamptz primary key,
  calls bigint not null,
  failed bigint not null,
  volume_micros bigint not null
);

-- Public tool calls by hour: trends, success rates and latencies read these rows instead of all calls. Calls that
-- failed by a fault of the caller are in `calls` alone.
create table tool_hours (
  tool text not null,
  hour timestamptz not null,
  calls bigint not null,
  ok bigint not null,
  judged bigint not null,
  judged_ms bigint not null,
  primary key (tool, hour)
);
create index tool_hours_by_time on tool_hours (hour);

-- Cash that an agent has paid to the station for calls that were not private. Nothing else counts, because
-- nothing else leaves the circle of agents that one owner can run.
create table agent_scores (
  agent_id text primary key,
  cash_micros bigint not null
);
create index agent_scores_by_cash on agent_scores (cash_micros desc, agent_id);

-- What the sums include: rows visible in `snapshot`. `until` and `late_rows` bound the search for newer rows,
-- `cluster` tells a restored database, whose transaction ids start again. `volume_micros` is the sum of all prices
-- of calls.
create table statistics_cursor (
  one boolean primary key default true check (one),
  snapshot pg_snapshot not null,
  until timestamptz not null,
  cluster text not null,
  volume_micros bigint not null default 0,
  -- When a node last judged the community tools.
  judged_at timestamptz not null default '-infinity'
);
insert into statistics_cursor (snapshot, until, cluster) values ('3:3:', '-infinity', '');

-- Transactions that inserted a row more than two seconds after its time stamp, with the earliest such time stamp,
-- until the sums include them. So the search for newer rows reads seconds, and more only if a row is late. One
-- row a transaction: a late batch of thousands does not write thousands of rows.
create table late_rows (
  written xid8 primary key default pg_current_xact_id(),
  at timestamptz not null
);
create function record_late_row() returns trigger language plpgsql as $$
begin
  insert into late_rows as l (at) values (new.at)
    on conflict (written) do update set at = excluded.at where excluded.at < l.at;
  return null;
end $$;
-- A condition costs less than a call of the function, and nearly all rows are in time. It reads the clock, not the
-- start of the transaction: what a transaction inserts after a long wait is late (decision 355). Updates need no
-- trigger: none changes `at`, and a changed row counts only while its insert is new.
create trigger ledger_late after insert on ledger for each row
  when (new.at < clock_timestamp() - interval '2 seconds') execute function record_late_row();
create trigger calls_late after insert on calls for each row
  when (new.tool is not null and new.at < clock_timestamp() - interval '2 seconds')
  execute function record_late_row();

-- Agents that signed the manifesto.
create table manifesto_signatures (
  agent_id uuid primary key,
  signed_at timestamptz not null
);
create index manifesto_signatures_by_time on manifesto_signatures (signed_at, agent_id);

-- Badges of the cookbook. `awarded` is locked while a number is awarded.
create table cookbook_recipes (
  recipe text primary key,
  awarded int not null default 0 check (awarded >= 0)
);
create table cookbook_badges (
  recipe text not null references cookbook_recipes,
  number int not null check (number > 0),
  agent_id uuid not null,
  claimed_at timestamptz not null,
  primary key (recipe, number),
  unique (recipe, agent_id)
);
