-- An author writes a text to the Hive once, and nobody writes what another has published. The row is
-- taken before the entry is written, since no constraint of a staged table may refuse a commit.

-- What is left of a text when letters, digits and their order are all that counts.
create function hive_plain(content text) returns text language sql immutable as $$
  select coalesce(nullif(trim(regexp_replace(lower(normalize(content, NFKC)), '[^[:alnum:]]+', ' ', 'g')), ''), content)
$$;
create function hive_hash(content text) returns bytea language sql immutable as $$
  select sha256(convert_to(hive_plain(content), 'UTF8'))
$$;

create table hive_texts (
  agent_id      uuid        not null,
  is_public     boolean     not null,
  hash          bytea       not null,
  entry_id      uuid        not null,
  -- Of the MinHash of its words: texts that share one are worth comparing.
  bands         int[]       not null,
  -- Until then its entry may still be on its way.
  claimed_until timestamptz not null,
  primary key (agent_id, is_public, hash)
);
create index hive_texts_by_hash on hive_texts (hash) where is_public;
create index hive_texts_by_band on hive_texts using gin (bands) where is_public;

insert into hive_texts
  select distinct on (agent_id, is_public, hive_hash(content))
         agent_id, is_public, hive_hash(content), id, '{}', at
    from hive_entries order by agent_id, is_public, hive_hash(content), id;
