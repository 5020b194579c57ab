-- One author at a time writes a public text: a claim waits for those of others that may become copies
-- of it, and a repetition of the call that made a claim takes it over at once.

-- The call that claimed the text: its Idempotency-Key, else its id. Null for claims of before.
alter table hive_texts add column claimed_by text;

-- Claims a text and answers with the id its entry is to have: the given one, or that of the claim which the
-- same call made before, since that one may still be committed. Null where the text is written, or another
-- call is writing it or, in public, a text that shares a band with it. The locks last as long as this takes:
-- the next claim sees this one.
create function hive_claim(
  author uuid, public_text boolean, content text, its_bands int[], entry uuid, claimant text, seconds int
) returns uuid language plpgsql as $$
declare
  its_hash bytea := hive_hash(content);
  its_entry uuid;
begin
  if public_text then
    perform pg_advisory_xact_lock(1212770885, hashtext(encode(its_hash, 'hex')));
    -- In one order for everybody, so that no two wait for each other.
    perform pg_advisory_xact_lock(1212770886, band)
       from (select distinct unnest(its_bands) as band order by 1) bands;
    if exists (
      select from hive_texts t
       where t.is_public and t.agent_id <> author and t.claimed_until > clock_timestamp()
         and (t.hash = its_hash or t.bands && its_bands)
         and not exists (select from hive_entries e where e.id = t.entry_id)
    ) then
      return null;
    end if;
  end if;
  insert into hive_texts as t (agent_id, is_public, hash, entry_id, bands, claimed_until, claimed_by)
  values (author, public_text, its_hash, entry, its_bands,
          clock_timestamp() + make_interval(secs => seconds), claimant)
  on conflict (agent_id, is_public, hash) do update
    set entry_id = case when t.claimed_by = excluded.claimed_by then t.entry_id else excluded.entry_id end,
        bands = excluded.bands,
        claimed_until = excluded.claimed_until, claimed_by = excluded.claimed_by
    where (t.claimed_until <= clock_timestamp() or t.claimed_by = excluded.claimed_by)
      and not exists (select from hive_entries e where e.id = t.entry_id)
  returning t.entry_id into its_entry;
  return its_entry;
end
$$;
