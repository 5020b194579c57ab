-- The master key: station keys sealed by it, retired keys, and triggers that guard sealed columns.

-- Keys that stay the same when the master key rotates, because stored hashes, signatures and pseudonyms
-- depend on them. Each is sealed by the master key.
create table station_keys (
  purpose text primary key,
  sealed bytea not null,
  created_at timestamptz not null default now()
);

-- The master keys of this database, by the key id in each envelope. A retired key seals nothing.
create table master_keys (
  key_id text primary key,
  seen_at timestamptz not null default now(),
  retired_at timestamptz
);

-- Writers of envelopes share the advisory lock (the same id on all nodes); retiring a key waits for them.
create function assert_master_keys_active(used text[]) returns void language plpgsql as $$
declare
  gone text;
begin
  perform pg_advisory_xact_lock_shared(84020009);
  select key_id into gone from master_keys where key_id = any(used) and retired_at is not null limit 1;
  if gone is not null then
    raise exception 'master key % is retired: give this node the new one and restart it', gone
      using errcode = 'object_not_in_prerequisite_state';
  end if;
end $$;

-- For an envelope inside a text: returns the text after checking its key.
create function sealed_text(key_id text, value text) returns text language plpgsql as $$
begin
  perform assert_master_keys_active(array[key_id]);
  return value;
end $$;

-- An envelope has its key id in the four bytes after its version.
create function check_sealed() returns trigger language plpgsql as $$
declare
  used text[];
begin
  -- Unchanged envelopes pass: rows under an old key remain usable until they are resealed.
  execute format('select array_agg(distinct encode(substring(%1$I from 3 for 4), ''hex'')) from (select %1$I from fresh '
    || case tg_op when 'UPDATE' then 'except select %1$I from before' else '' end || ') changed', tg_argv[0]) into used;
  perform assert_master_keys_active(used);
  return null;
end $$;

-- Rejects envelopes of a retired key in a column. Every table with envelopes calls it.
create function guard_sealed(kept text, col text) returns void language plpgsql as $$
begin
  execute format('create trigger %I after insert on %I referencing new table as fresh
    for each statement execute function check_sealed(%L)', kept || '_' || col || '_added', kept, col);
  execute format('create trigger %I after update on %I referencing old table as before new table as fresh
    for each statement execute function check_sealed(%L)', kept || '_' || col || '_changed', kept, col);
end $$;
select guard_sealed('station_keys', 'sealed');
