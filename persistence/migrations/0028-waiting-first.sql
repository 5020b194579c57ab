-- commit_batch of 0001, but for one order: what waits is read before the versions are compared.
create or replace function commit_batch(
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
  -- Before the versions, and each statement sees what is committed by then: a node that absorbs a message
  -- between the two makes the reply stale, where the other way round the message would be missed.
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
    -- A message that another node has absorbed meanwhile must not be credited again.
    select o from unnest(x_of, x_id) x(o, i) join inbox n on n.receiver = o and n.id = i
      where n.absorbed_at is not null
    union
    -- Nor be credited twice by this very batch.
    select o from unnest(x_of, x_id) x(o, i) group by o, i having count(*) > 1) stale;
  -- Nor may a key be answered twice: the version alone does not tell a node that looked too early.
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
          at_rest = excluded.at_rest;
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
