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

-- What the inspector lists: each kind, the newest first where ids sort by time.
create index actors_listed on actors (kind, id desc);

-- One row a command: its input and the actors it changed (core/journal-change.ts).
create table journal (
  aggregate_id text not null,
  version bigint not null,
  command_id uuid not null,
  command jsonb not null,
  changed json not null,
  at timestamptz not null,
  primary key (aggregate_id, version, at)
) partition by range (at);

-- The ledger: append-only. A row is one movement from `debit` to `credit`, or the price of a call, which
-- the view `transfers` shows as its movements: every row balances by construction.
create table ledger (
  at timestamptz not null,
  amount_micros bigint not null check (amount_micros > 0),
  -- Of a price: the part for treasury:fees, and the part that promotional credits pay.
  fee_micros bigint,
  promo_micros bigint,
  id uuid not null,
  call_id uuid,
  owner text not null,
  kind text not null,
  -- Of a price: the free or held credits of the owner, or the clearing account of a chain.
  source text,
  debit text,
  credit text,
  memo text,
  check (debit <> credit),
  check (case when kind <> 'price'
    then debit is not null and credit is not null and num_nonnulls(fee_micros, promo_micros, source) = 0
    else num_nulls(fee_micros, promo_micros, source, call_id) = 0 and num_nonnulls(debit, credit, memo) = 0
      and fee_micros between 0 and amount_micros and promo_micros between 0 and amount_micros
      and (source in ('free', 'held') or source like 'owed:_%' and promo_micros = 0) end),
  primary key (owner, id, at)
) partition by range (at);
create index ledger_sent on ledger (debit, id) where kind in ('send', 'tip', 'tip_fee');
-- Credits from others in ledger order, for statements and transfer lists. The owner's own commits add no
-- entry, so a call costs nothing more.
create index ledger_received on ledger (credit, id)
  where credit like 'agent:%' and split_part(credit, ':', 2) <> owner;
create index ledger_by_time on ledger using brin (at) with (autosummarize = on);

-- The account that pays a part of a price.
create function paying_account(owner text, source text, promo boolean) returns text language sql immutable as $$
  select case source when 'free' then 'agent:' || owner || case when promo then ':promo' else ':cash' end
    when 'held' then 'agent:' || owner || case when promo then ':held:promo' else ':held' end else source end
$$;
-- The part of a price for the tools that promotional credits pay: they pay the tools before the fee.
create function promo_charge(amount bigint, fee bigint, promo bigint) returns bigint language sql immutable as $$
  select least(promo, amount - fee)
$$;
-- Every movement of the ledger, for sums and audits; the parts of a price share its id. What reads some
-- rows in their order, or looks for an account, reads `ledger`.
create view transfers as
  select id, 0 as part, owner, debit, credit, amount_micros, kind, call_id, memo, at
    from ledger where kind <> 'price'
  union all
  select id, 1, owner, paying_account(owner, source, true), 'platform:tools',
         promo_charge(amount_micros, fee_micros, promo_micros), 'charge', call_id, memo, at
    from ledger where kind = 'price' and promo_charge(amount_micros, fee_micros, promo_micros) <> 0
  union all
  select id, 2, owner, paying_account(owner, source, false), 'platform:tools',
         amount_micros - fee_micros - promo_charge(amount_micros, fee_micros, promo_micros), 'charge', call_id, memo, at
    from ledger where kind = 'price'
     and amount_micros - fee_micros <> promo_charge(amount_micros, fee_micros, promo_micros)
  union all
  select id, 3, owner, paying_account(owner, source, true), 'treasury:fees',
         promo_micros - promo_charge(amount_micros, fee_micros, promo_micros), 'fee', call_id, memo, at
    from ledger where kind = 'price' and promo_micros <> promo_charge(amount_micros, fee_micros, promo_micros)
  union all
  select id, 4, owner, paying_account(owner, source, false), 'treasury:fees',
         fee_micros - promo_micros + promo_charge(amount_micros, fee_micros, promo_micros), 'fee', call_id, memo, at
    from ledger where kind = 'price'
     and fee_micros <> promo_micros - promo_charge(amount_micros, fee_micros, promo_micros);

-- One row a tool call, and one a write with an Idempotency-Key.
create table calls (
  at timestamptz not null,
  cost_micros bigint not null check (cost_micros >= 0),
  -- The inserting transaction. Statements page by it, because xmin changes when a stored response is removed.
  written xid8 default pg_current_xact_id(),
  ms int not null,
  ghost boolean not null,
  call_id uuid not null,
  agent_id uuid,
  key_id uuid,
  task_id uuid,
  owner text not null,
  operation text not null,
  tool text,
  rail text not null,
  status text not null check (status in ('ok', 'failed')),
  error_code text,
  backpack_id text,
  idempotency_key text,
  request_hash text,
  response text,
  -- Ids sort by time: it has the calls of an owner in their order too.
  primary key (owner, call_id, at)
) partition by range (at);
create index calls_by_key on calls (owner, idempotency_key) where idempotency_key is not null;
create index calls_by_backpack on calls (backpack_id, call_id) where backpack_id is not null;
create index calls_by_time on calls using brin (at) with (autosummarize = on);
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
-- A summary of pages: an update of `last_at` adds no entry to an index.
create index usage_recent on usage_daily using brin (last_at) with (pages_per_range = 8);

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
create trigger ledger_append_only before update or delete on ledger
  for each row execute function refuse_change();
create trigger ledger_no_truncate before truncate on ledger
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
create table ledger_default partition of ledger default;
create table calls_default partition of calls default;
create function ensure_partitions(months int) returns void language plpgsql as $$
declare
  parent text;
  start timestamptz;
  part text;
begin
  perform pg_advisory_xact_lock(hashtext('ensure_partitions'));
  foreach parent in array array['journal', 'ledger', 'calls'] loop
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
-- inbox rows. Columns `_of` are positions in `ids`; `more` has what few commands write, as JSON.
create function commit_batch(
  ids text[], kinds text[], old_v bigint[], new_v bigint[],
  ro_ids text[], ro_v bigint[],
  j_of text[], j_v bigint[], j_id uuid[], j_at bigint[], j_cmd text, j_changed text,
  a_of int[], a_kind text[], a_id text[], a_mv int[], a_state text, a_rest boolean[],
  p_of int[], p_id uuid[], p_source text[], p_amount bigint[], p_fee bigint[], p_promo bigint[],
  p_call uuid[], p_at bigint[],
  c_of int[], c_id uuid[], c_agent uuid[], c_key uuid[], c_operation text[], c_tool text[],
  c_rail text[], c_cost bigint[], c_status text[], c_error text[], c_ms int[], c_task uuid[],
  c_backpack text[], c_ghost boolean[], c_idem text[], c_hash text[], c_response text[],
  c_at bigint[],
  o_of int[], o_agent text[], o_backpack text[], o_type text[], o_data text, o_at bigint[],
  o_if_heard boolean[], more text,
  out bad text[], out waiting text[], out stored_events int
) language plpgsql as $$
declare
  rare jsonb := more;
  -- JSON contains no control characters, so columns of it are joined and need no quoting.
  sep constant text := E'\x1f';
  tb text;
  heard text[];
begin
  if cardinality(ids) > 0 then
    if 0 = any(old_v) then
      insert into aggregates select i, k, 0 from unnest(ids, kinds, old_v) x(i, k, o)
        where o = 0 order by i on conflict do nothing;
    end if;
    perform from aggregates where id = any(ids) order by id for update;
  end if;
  -- The inbox is read before the versions, and each statement sees the commits before it: a message that
  -- another node absorbs in between makes the reply stale. In the other order it would be missed.
  waiting := '{}';
  if cardinality(ro_ids) > 0 then
    select coalesce(array_agg(distinct receiver), '{}') into waiting from inbox
      where receiver = any(ro_ids) and absorbed_at is null;
  end if;
  -- Left joins: an aggregate without a row must be reported, not overlooked.
  select coalesce(array_agg(i), '{}') into bad from (
    select i from unnest(ids, old_v) x(i, o) left join aggregates a on a.id = i
      where a.version is distinct from o
    union
    select i from unnest(ro_ids, ro_v) x(i, o) left join aggregates a on a.id = i
      where coalesce(a.version, 0) is distinct from o
    union
    -- A message that another node has absorbed must not be credited again.
    select o from jsonb_to_recordset(rare->'absorbed') x(o text, id text) join inbox n on n.receiver = o and n.id = x.id
      where n.absorbed_at is not null
    union
    -- Nor twice by this batch.
    select o from jsonb_to_recordset(rare->'absorbed') x(o text, id text) group by o, id having count(*) > 1) stale;
  -- An Idempotency-Key is answered once. The version alone does not detect a node that checked too early.
  if exists (select from unnest(c_idem) k where k is not null) then
    select bad || coalesce(array_agg(distinct ids[o]), '{}') into bad from unnest(c_of, c_idem) x(o, k)
      where k is not null and exists (select from calls c where c.owner = ids[o] and c.idempotency_key = k
        and c.at > now() - interval '24 hours');
  end if;

  if cardinality(ids) > 0 then
    update aggregates a set version = n from unnest(ids, new_v) x(i, n)
      where a.id = i and i <> all(bad);
    insert into journal select o, v, i, c::jsonb, d::json, to_timestamp(t / 1000.0)
      from unnest(j_of, j_v, j_id, j_at, string_to_array(j_cmd, sep), string_to_array(j_changed, sep)) x(o, v, i, t, c, d) where o <> all(bad);
    insert into actors select ids[o], k, i, m, s::jsonb, r
      from unnest(a_of, a_kind, a_id, a_mv, string_to_array(a_state, sep), a_rest) x(o, k, i, m, s, r)
      where ids[o] <> all(bad) on conflict (aggregate_id, kind, id) do update
      set machine_version = excluded.machine_version, state = excluded.state,
          archived = excluded.archived;
  end if;
  if cardinality(p_of) > 0 then
    insert into ledger (id, owner, kind, source, amount_micros, fee_micros, promo_micros, call_id, at)
      select i, ids[o], 'price', s, a, f, p, l, to_timestamp(t / 1000.0::float8)
      from unnest(p_of, p_id, p_source, p_amount, p_fee, p_promo, p_call, p_at)
        x(o, i, s, a, f, p, l, t) where ids[o] <> all(bad);
  end if;
  if cardinality(c_of) > 0 then
    insert into calls (owner, call_id, agent_id, key_id, operation, tool, rail, cost_micros, status,
        error_code, ms, task_id, backpack_id, ghost, idempotency_key, request_hash, response, at)
      select ids[o], i, ag, ky, op, tl, ra, co, st, er, ms, ta, ba, gh, ik, rh, re,
        to_timestamp(t / 1000.0::float8)
      from unnest(c_of, c_id, c_agent, c_key, c_operation, c_tool, c_rail, c_cost, c_status,
        c_error, c_ms, c_task, c_backpack, c_ghost, c_idem, c_hash, c_response, c_at)
        x(o, i, ag, ky, op, tl, ra, co, st, er, ms, ta, ba, gh, ik, rh, re, t)
      where ids[o] <> all(bad);
  end if;
  stored_events := 0;
  if cardinality(o_of) > 0 then
    -- Who begins to listen waits for this lock of the aggregate, or is seen here.
    select coalesce(array_agg(a), '{}') into heard
      from (select distinct a from unnest(o_agent, o_if_heard) x(a, q) where q) y
      where exists (select from event_listeners l where l.agent_id = a)
         or exists (select from webhooks w where w.agent_id = a and w.backpack_id is null);
    if cardinality(heard) > 0 or false = any(o_if_heard) then
      insert into outbox (agent_id, backpack_id, type, data, at)
        select a, b, y, d::jsonb, to_timestamp(t / 1000.0::float8)
        from unnest(o_of, o_agent, o_backpack, o_type, string_to_array(o_data, sep), o_at, o_if_heard) x(o, a, b, y, d, t, q)
        where ids[o] <> all(bad) and (not q or a = any(heard));
      get diagnostics stored_events = row_count;
    end if;
  end if;
  if rare is null then
    return;
  end if;
  insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, memo, at)
    select id, o, debit, credit, amount, kind, call, memo, to_timestamp(at / 1000.0)
    from jsonb_to_recordset(rare->'transfers') x(o text, id uuid, debit text, credit text, amount bigint,
      kind text, call uuid, memo text, at bigint) where o <> all(bad);
  insert into inbox select receiver, id, "receiverKind", event::jsonb, to_timestamp(at / 1000.0)
    from jsonb_to_recordset(rare->'inbox') x(o text, receiver text, "receiverKind" text, id text, event text,
      at bigint) where o <> all(bad) order by receiver, id on conflict do nothing;
  update inbox n set absorbed_at = clock_timestamp()
    from jsonb_to_recordset(rare->'absorbed') x(o text, id text)
    where n.receiver = o and n.id = x.id and o <> all(bad);
  delete from timers t using jsonb_to_recordset(rare->'removed') x(o text, id text)
    where t.aggregate_id = o and t.id = x.id and o <> all(bad);
  insert into timers select o, k, id, to_timestamp(due / 1000.0), command, input::jsonb
    from jsonb_to_recordset(rare->'timers') x(o text, k text, id text, due bigint, command text, input text)
    where o <> all(bad) on conflict (aggregate_id, id) do update
    set due_at = excluded.due_at, command = excluded.command, input = excluded.input;
  for tb in select distinct x."table" from jsonb_to_recordset(rare->'rows') x("table" text) loop
    if not exists (select from stageable where name = tb) then
      raise exception 'table % takes no staged rows', tb;
    end if;
    execute format('insert into %1$I select r.* from jsonb_to_recordset($1) x(o text, "table" text, "row" jsonb),
      jsonb_populate_record(null::%1$I, "row") r where "table" = %1$L and o <> all($2)', tb)
      using rare->'rows', bad;
  end loop;
end $$;
