-- The commit and its tables. Money and state change only through commit_batch.

-- The version of each aggregate: the optimistic lock between nodes.
create table aggregates (
  id text primary key,
  kind text not null,
  version bigint not null
) with (fillfactor = 80);
-- Visitors are removed some days after their last free call.
create index aggregates_visitors on aggregates (id) where kind = 'visitor';

-- The latest snapshot of each actor. Ended actors without open work are archived: not loaded by default.
create table actors (
  aggregate_id text not null,
  kind text not null,
  id text not null,
  machine_version int not null,
  state jsonb not null,
  archived boolean not null default false,
  primary key (aggregate_id, kind, id)
) with (fillfactor = 80);

-- One row a command: its input and the actors it changed.
create table journal (
  aggregate_id text not null,
  version bigint not null,
  command_id uuid not null,
  command jsonb not null,
  changed jsonb not null,
  at timestamptz not null,
  primary key (aggregate_id, version, at)
) partition by range (at);

-- The ledger: append-only, one movement a row, so every row balances by construction.
create table transfers (
  id uuid not null,
  owner text not null,
  debit text not null,
  credit text not null,
  amount_micros bigint not null check (amount_micros > 0),
  kind text not null,
  call_id uuid,
  memo text,
  at timestamptz not null,
  check (debit <> credit),
  primary key (owner, id, at)
) partition by range (at);
create index transfers_sent on transfers (debit, id) where kind in ('send', 'tip', 'tip_fee');
-- Credits from others in ledger order, for statements and transfer lists. The owner's own commits add no
-- entry, so a call costs nothing more.
create index transfers_received on transfers (credit, id)
  where credit like 'agent:%' and split_part(credit, ':', 2) <> owner;
create index transfers_by_time on transfers using brin (at) with (autosummarize = on);

-- One row a tool call, and one a write with an Idempotency-Key.
create table calls (
  owner text not null,
  call_id uuid not null,
  agent_id uuid,
  key_id uuid,
  operation text not null,
  tool text,
  rail text not null,
  cost_micros bigint not null check (cost_micros >= 0),
  status text not null check (status in ('ok', 'failed')),
  error_code text,
  ms int not null,
  task_id uuid,
  backpack_id text,
  ghost boolean not null,
  idempotency_key text,
  request_hash text,
  response text,
  at timestamptz not null,
  -- The inserting transaction. Statements page by it, because xmin changes when a stored response is removed.
  written xid8 default pg_current_xact_id(),
  primary key (owner, call_id, at)
) partition by range (at);
create index calls_by_owner on calls (owner, at);
create index calls_by_key on calls (owner, idempotency_key) where idempotency_key is not null;
create index calls_by_backpack on calls (backpack_id, call_id) where backpack_id is not null;
create index calls_by_time on calls using brin (at);
-- Stored responses expire after a day.
create index calls_answers on calls (at) where response is not null;

-- Tool calls by owner and UTC day, updated by each insert into calls: balances, reputations and
-- directories read it instead of all calls.
create table usage_daily (
  owner text not null,
  day date not null,
  calls bigint not null,
  public_calls bigint not null,
  public_ok bigint not null,
  spent_micros bigint not null,
  last_at timestamptz not null,
  primary key (owner, day)
) with (fillfactor = 80);
create index usage_recent on usage_daily (last_at);

-- `calls` counts successful calls. Public figures leave out ghost calls.
create function count_usage() returns trigger language plpgsql as $$
begin
  insert into usage_daily as u
    select owner, (at at time zone 'UTC')::date, count(*) filter (where status = 'ok'),
           count(*) filter (where not ghost), count(*) filter (where not ghost and status = 'ok'),
           sum(cost_micros)::bigint, max(at)
      from fresh where tool is not null group by 1, 2 order by 1, 2
    on conflict (owner, day) do update set
      calls = u.calls + excluded.calls, public_calls = u.public_calls + excluded.public_calls,
      public_ok = u.public_ok + excluded.public_ok,
      spent_micros = u.spent_micros + excluded.spent_micros,
      last_at = greatest(u.last_at, excluded.last_at);
  return null;
end $$;
create trigger calls_counted after insert on calls
  referencing new table as fresh for each statement execute function count_usage();

-- Events on their way into an aggregate. Absorbed rows stay: the primary key rejects a redelivery.
create table inbox (
  receiver text not null,
  id text not null,
  receiver_kind text not null,
  event jsonb not null,
  at timestamptz not null,
  absorbed_at timestamptz,
  primary key (receiver, id)
);
create index inbox_open on inbox (receiver) where absorbed_at is null;

-- Events on their way out: pagers, alerts, webhooks and sockets read them by id.
create table outbox (
  id bigint generated always as identity primary key,
  agent_id text not null,
  backpack_id text,
  type text not null,
  data jsonb not null,
  at timestamptz not null
);
create index outbox_by_agent on outbox (agent_id, id);
create index outbox_by_backpack on outbox (backpack_id, id) where backpack_id is not null;

-- Work to do later. The row is authoritative; an in-process alarm is a hint.
create table timers (
  aggregate_id text not null,
  aggregate_kind text not null,
  id text not null,
  due_at timestamptz not null,
  command text not null,
  input jsonb not null,
  primary key (aggregate_id, id)
);
create index timers_due on timers (due_at);

-- Work that failed permanently, of any kind: listed and replayed with `gas dlq`.
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
create index dead_letters_replayed on dead_letters (replayed_at) where replayed_at is not null;

-- The tables a command may insert whole rows into. Each migration adds its own.
create table stageable (name text primary key);
-- An aggregate that another one creates is staged in the creator's commit: its version, actor, first
-- journal row and timer.
insert into stageable values ('aggregates'), ('actors'), ('journal'), ('timers');

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'table % is append-only', tg_table_name;
end $$;
create trigger transfers_append_only before update or delete on transfers
  for each row execute function refuse_change();
create trigger transfers_no_truncate before truncate on transfers
  for each statement execute function refuse_change();

-- Whether a visible row was visible in an earlier snapshot, by its xmin. An xmin has the low 32 of the 64
-- bits of a transaction id; the latest id with these bits is meant.
create function was_visible(written xid, earlier pg_snapshot) returns boolean language sql stable as $$
  select pg_visible_in_snapshot(
    (latest - ((latest - written::text::bigint) & 4294967295))::text::xid8, earlier)
    from (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as latest) l
$$;

-- Monthly partitions from last month to `months` ahead; the default partition catches the rest.
create table journal_default partition of journal default;
create table transfers_default partition of transfers default;
create table calls_default partition of calls default;
create function ensure_partitions(months int) returns void language plpgsql as $$
declare
  parent text;
  start timestamptz;
  part text;
begin
  perform pg_advisory_xact_lock(hashtext('ensure_partitions'));
  foreach parent in array array['journal', 'transfers', 'calls'] loop
    for start in select generate_series(
      date_trunc('month', now() at time zone 'UTC') - interval '1 month',
      date_trunc('month', now() at time zone 'UTC') + make_interval(months => months),
      interval '1 month') at time zone 'UTC'
    loop
      part := parent || to_char(start at time zone 'UTC', '_YYYY_MM');
      if to_regclass(part) is null then
        execute format('create table %I partition of %I for values from (%L) to (%L)',
          part, parent, start, (start at time zone 'UTC' + interval '1 month') at time zone 'UTC');
      end if;
    end loop;
  end loop;
end $$;
select ensure_partitions(3);

-- Commits a batch of commands in one transaction. Aggregates whose version has changed are returned in
-- `bad` and their effects left out; the others are applied whole. Assertions (`ro_`) change nothing:
-- they check that a reply still holds on the newest state, and `waiting` names those with unabsorbed
-- inbox rows.
create function commit_batch(
  ids text[], kinds text[], old_v bigint[], new_v bigint[],
  ro_ids text[], ro_v bigint[],
  j_of text[], j_v bigint[], j_id uuid[], j_at bigint[], j_cmd text[], j_changed text[],
  a_of text[], a_kind text[], a_id text[], a_mv int[], a_state text[], a_rest boolean[],
  t_of text[], t_id uuid[], t_debit text[], t_credit text[], t_amount bigint[], t_kind text[],
  t_call uuid[], t_memo text[], t_at bigint[],
  c_of text[], c_id uuid[], c_agent uuid[], c_key uuid[], c_operation text[], c_tool text[],
  c_rail text[], c_cost bigint[], c_status text[], c_error text[], c_ms int[], c_task uuid[],
  c_backpack text[], c_ghost boolean[], c_idem text[], c_hash text[], c_response text[],
  c_at bigint[],
  i_of text[], i_receiver text[], i_kind text[], i_id text[], i_event text[], i_at bigint[],
  x_of text[], x_id text[],
  o_of text[], o_agent text[], o_backpack text[], o_type text[], o_data text[], o_at bigint[],
  d_of text[], d_id text[],
  m_of text[], m_kind text[], m_id text[], m_due bigint[], m_command text[], m_input text[],
  r_of text[], r_table text[], r_row text[],
  out bad text[], out waiting text[]
) language plpgsql as $$
declare
  tb text;
begin
  if cardinality(ids) > 0 then
    insert into aggregates select i, k, 0 from unnest(ids, kinds, old_v) x(i, k, o)
      where o = 0 order by i on conflict do nothing;
    perform from aggregates where id = any(ids) order by id for update;
  end if;
  -- The inbox is read before the versions, and each statement sees the commits before it: a message that
  -- another node absorbs in between makes the reply stale. In the other order it would be missed.
  select coalesce(array_agg(distinct receiver), '{}') into waiting from inbox
    where receiver = any(ro_ids) and absorbed_at is null;
  -- Left joins: an aggregate without a row must be reported, not overlooked.
  select coalesce(array_agg(i), '{}') into bad from (
    select i from unnest(ids, old_v) x(i, o) left join aggregates a on a.id = i
      where a.version is distinct from o
    union
    select i from unnest(ro_ids, ro_v) x(i, o) left join aggregates a on a.id = i
      where coalesce(a.version, 0) is distinct from o
    union
    -- A message that another node has absorbed must not be credited again.
    select o from unnest(x_of, x_id) x(o, i) join inbox n on n.receiver = o and n.id = i
      where n.absorbed_at is not null
    union
    -- Nor twice by this batch.
    select o from unnest(x_of, x_id) x(o, i) group by o, i having count(*) > 1) stale;
  -- An Idempotency-Key is answered once. The version alone does not detect a node that checked too early.
  if exists (select from unnest(c_idem) k where k is not null) then
    select bad || coalesce(array_agg(distinct o), '{}') into bad from unnest(c_of, c_idem) x(o, k)
      where exists (select from calls c where c.owner = o and c.idempotency_key = k
        and c.at > now() - interval '24 hours');
  end if;

  if cardinality(ids) > 0 then
    update aggregates a set version = n from unnest(ids, new_v) x(i, n)
      where a.id = i and i <> all(bad);
    insert into journal select o, v, i, c::jsonb, d::jsonb, to_timestamp(t / 1000.0)
      from unnest(j_of, j_v, j_id, j_at, j_cmd, j_changed) x(o, v, i, t, c, d) where o <> all(bad);
    insert into actors select o, k, i, m, s::jsonb, r
      from unnest(a_of, a_kind, a_id, a_mv, a_state, a_rest) x(o, k, i, m, s, r)
      where o <> all(bad) on conflict (aggregate_id, kind, id) do update
      set machine_version = excluded.machine_version, state = excluded.state,
          archived = excluded.archived;
  end if;
  if cardinality(t_of) > 0 then
    insert into transfers select i, o, d, c, a, k, l, m, to_timestamp(t / 1000.0)
      from unnest(t_of, t_id, t_debit, t_credit, t_amount, t_kind, t_call, t_memo, t_at)
        x(o, i, d, c, a, k, l, m, t) where o <> all(bad);
  end if;
  if cardinality(c_of) > 0 then
    insert into calls select o, i, ag, ky, op, tl, ra, co, st, er, ms, ta, ba, gh, ik, rh, re,
        to_timestamp(t / 1000.0)
      from unnest(c_of, c_id, c_agent, c_key, c_operation, c_tool, c_rail, c_cost, c_status,
        c_error, c_ms, c_task, c_backpack, c_ghost, c_idem, c_hash, c_response, c_at)
        x(o, i, ag, ky, op, tl, ra, co, st, er, ms, ta, ba, gh, ik, rh, re, t)
      where o <> all(bad);
  end if;
  if cardinality(i_of) > 0 then
    insert into inbox select r, i, k, e::jsonb, to_timestamp(t / 1000.0)
      from unnest(i_of, i_receiver, i_kind, i_id, i_event, i_at) x(o, r, k, i, e, t)
      where o <> all(bad) order by r, i on conflict do nothing;
  end if;
  if cardinality(x_of) > 0 then
    update inbox n set absorbed_at = clock_timestamp() from unnest(x_of, x_id) x(o, i)
      where n.receiver = o and n.id = i and o <> all(bad);
  end if;
  if cardinality(o_of) > 0 then
    insert into outbox (agent_id, backpack_id, type, data, at)
      select a, b, y, d::jsonb, to_timestamp(t / 1000.0)
      from unnest(o_of, o_agent, o_backpack, o_type, o_data, o_at) x(o, a, b, y, d, t)
      where o <> all(bad);
  end if;
  if cardinality(d_of) > 0 then
    delete from timers t using unnest(d_of, d_id) x(o, i)
      where t.aggregate_id = o and t.id = i and o <> all(bad);
  end if;
  if cardinality(m_of) > 0 then
    insert into timers select o, k, i, to_timestamp(t / 1000.0), c, j::jsonb
      from unnest(m_of, m_kind, m_id, m_due, m_command, m_input) x(o, k, i, t, c, j)
      where o <> all(bad) on conflict (aggregate_id, id) do update
      set due_at = excluded.due_at, command = excluded.command, input = excluded.input;
  end if;
  for tb in select distinct n from unnest(r_table) x(n) loop
    if not exists (select from stageable where name = tb) then
      raise exception 'table % takes no staged rows', tb;
    end if;
    execute format('insert into %1$I select r.* from unnest($1, $2, $3) x(o, n, j),
      jsonb_populate_record(null::%1$I, j::jsonb) r where n = %1$L and o <> all($4)', tb)
      using r_of, r_table, r_row, bad;
  end loop;
end $$;
