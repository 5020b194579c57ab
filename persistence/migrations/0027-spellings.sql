-- What the parser of PostgreSQL takes for one word, or for a path, a host or a negative number, is found
-- by its parts too, and by being written together or apart: ETH/USD, Node.js, setApprovalForAll, EIP-7702,
-- ERC1271, e-mail, 5,000. Null where there is nothing to add.
create function other_spellings(content text) returns text language sql immutable parallel safe as $$
  select case when content collate "C" ~ '[A-Za-z0-9][-_./:@,]+[A-Za-z0-9]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}|[A-Za-z]{2}[0-9]{2}' then (
    select nullif(trim(regexp_replace(string_agg(distinct s, ' '), '\m[A-Za-z]\M', ' ', 'g')), '')
      from (select substring(part collate "C" from '[A-Za-z0-9](?:.*[A-Za-z0-9])?') as w
              from (select distinct unnest(string_to_array(translate(content, E'\n\r\t()[]{}<>"`', '             '), ' ')) as part) parts
             where part collate "C" ~ '.[-_./:@,A-Z0-9]') words,
           lateral (values
             -- in its parts
             (case when w ~ '[-_./:@]' and w !~ '^[-0-9.,:/]+$' then regexp_replace(w, '[-_./:@,]+', ' ', 'g') end),
             -- together
             (case when w ~ '^[A-Za-z0-9]+-[A-Za-z0-9]+$' and w ~ '[A-Za-z]' then replace(w, '-', '') end),
             (case when w ~ '^[0-9]{1,3}(?:,[0-9]{3})+$' then replace(w, ',', '') end),
             -- humps, not those of an address
             (case when w ~ '[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}' and w !~ '^0x' then
                regexp_replace(
                  regexp_replace(regexp_replace(w, '[-_./:@,]+', ' ', 'g'),
                    '([A-Z])([A-Z][a-z]{2})', '\1 \2', 'g'),
                  '([a-z0-9])([A-Z])(?=[A-Za-z]{2})', '\1 \2', 'g') end),
             -- a name and its number
             (case when w ~ '^[A-Za-z]{2,}[0-9]{2,}$' then regexp_replace(w, '([A-Za-z])([0-9])', '\1 \2') end)
           ) v(s)
     where length(w) <= 80 and s is not null)
  end
$$;

-- All that a text with tags is found by.
create function spelt_out(content text, tags text[]) returns text language sql stable parallel safe as $$
  select concat_ws(' ', content, nullif(array_to_string(tags, ' '), ''), other_spellings(content))
$$;

create or replace function index_hive_entry() returns trigger language plpgsql as $$
begin
  new.content_search := to_tsvector('english', spelt_out(new.content, new.tags));
  return new;
end $$;

create or replace function index_vault_memory() returns trigger language plpgsql as $$
begin
  new.content_search := to_tsvector('english', spelt_out(new.content, new.tags));
  return new;
end $$;

create or replace function learn_hive_words() returns trigger language plpgsql as $$
declare
  unknown text[];
begin
  select array_agg(distinct w) into unknown from fresh f,
      unnest(tsvector_to_array(to_tsvector('simple', spelt_out(f.content, f.tags)))) w
    where f.is_public and w ~ '^[[:alpha:]]{4,32}$'
      and not exists (select from hive_words k where k.word = w);
  if unknown is null then return null; end if;
  -- Two commits that learn the same words at once would wait for each other, each for the other's.
  perform lock_hive();
  insert into hive_words select unnest(unknown) on conflict do nothing;
  return null;
end $$;

-- What is there already.
update hive_entries set content = content where other_spellings(content) is not null;
update vault_memories set content_search = to_tsvector('english', spelt_out(content, tags))
 where other_spellings(content) is not null;
insert into hive_words
  select distinct w from hive_entries e,
    unnest(tsvector_to_array(to_tsvector('simple', other_spellings(e.content)))) w
   where e.is_public and w ~ '^[[:alpha:]]{4,32}$'
  on conflict do nothing;
