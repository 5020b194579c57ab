-- One form of each text for search and for comparison (docs/hive.md, decision 412): no invisible characters,
-- one encoding, no accents; scripts that are written without blanks, and Korean, are searched by pairs of characters.

-- Without what nobody sees, in one encoding. The same as toPlainText in core/comparable-text.ts.
create function plain_text(content text) returns text language sql immutable parallel safe as $$
  select case when octet_length(content) = length(content) then content
    else normalize(regexp_replace(content,
      '[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]',
      '', 'g'), NFKC) end
$$;

-- Also without accents, and with the plain forms of letters that have no other one.
create function fold_text(content text) returns text language sql immutable parallel safe as $$
  select case when octet_length(content) = length(content) then content
    else translate(replace(replace(replace(replace(replace(
      normalize(regexp_replace(normalize(plain_text(content), NFD), '[\u0300-\u036f]+', '', 'g'), NFC),
      'ß', 'ss'), 'æ', 'ae'), 'Æ', 'AE'), 'œ', 'oe'), 'Œ', 'OE'), 'ıøØłŁđĐς', 'ioOlLdDσ') end
$$;

-- The pairs of neighbouring characters of each run of Han, Kana, Hangul, Thai, Lao, Tibetan, Burmese or Khmer, as
-- words of ASCII that no parser or dictionary changes; then, with `singles`, the characters. Null for none.
create function script_pairs(content text, singles boolean) returns text language sql immutable parallel safe as $$
  select case when octet_length(content) = length(content) then null else (
    with chars as materialized (
      select c, run, n, lead(c) over (partition by run order by n) as next
        from regexp_matches(content,
               '[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+',
               'g') with ordinality m(part, run),
             unnest(string_to_array(m.part[1], null)) with ordinality u(c, n))
    select string_agg(word, ' ' order by kind, run, n) from (
      select 0 as kind, run, n, 'z0' || to_hex(ascii(c)) || 'z' || to_hex(ascii(next)) as word
        from chars where next is not null
      union all
      select 1, run, n, 'z0' || to_hex(ascii(c)) from chars where singles or (n = 1 and next is null)) words)
  end
$$;

create or replace function searchable_text(content text, tags text[]) returns text language sql stable parallel safe as $$
  select concat_ws(' ', f.content, f.tags, spelling_variants(f.content), script_pairs(concat_ws(' ', f.content, f.tags), true))
    from (select fold_text(content) as content, fold_text(nullif(array_to_string(tags, ' '), '')) as tags) f
$$;

-- A question in the form of the index: each run is replaced by its pairs, an excluded one by their phrase.
create function search_question(question text) returns text language sql immutable parallel safe as $$
  select case when octet_length(question) = length(question) then question else (
    select coalesce(string_agg(case
             when script_pairs(part, false) is null then part
             when before ~ '(^|\s)-$' then '"' || script_pairs(part, false) || '"'
             else ' ' || script_pairs(part, false) || ' ' end, '' order by n), '')
      from (select m.part[1] as part, n, lag(m.part[1]) over (order by n) as before
              from regexp_matches(fold_text(question),
                     '[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+|[^\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+',
                     'g') with ordinality m(part, n)) parts) end
$$;

-- Watches are questions too.
create or replace function hive_anchor(keyword text) returns text language sql immutable as $$
  select w from unnest(tsvector_to_array(to_tsvector('english', search_question(keyword)))) w
   order by length(w) desc, w limit 1
$$;
create or replace function hive_query(keyword text) returns tsquery language sql immutable as $$
  select string_agg('''' || replace(replace(w, '\', '\\'), '''', '''''') || '''', ' & ' order by w)::tsquery
    from unnest(tsvector_to_array(to_tsvector('english', search_question(keyword)))) w
$$;

-- Copies: invisible characters make no other text.
create or replace function normalize_hive_text(content text) returns text language sql immutable as $$
  select coalesce(nullif(trim(regexp_replace(lower(plain_text(content)), '[^[:alnum:]]+', ' ', 'g')), ''), content)
$$;

-- The text of a memory, to find one that an agent stores again (decision 413).
create function memory_text(content text) returns text language sql immutable parallel safe as $$
  select trim(regexp_replace(plain_text(content), '\s+', ' ', 'g'))
$$;

-- What is stored. Texts in ASCII stay as they are indexed.
update hive_entries set content_search = to_tsvector('english', searchable_text(content, tags))
 where octet_length(content) <> length(content) or octet_length(array_to_string(tags, ' ')) <> length(array_to_string(tags, ' '));
update vault_memories set content_search = to_tsvector('english', searchable_text(content, tags))
 where octet_length(content) <> length(content) or octet_length(array_to_string(tags, ' ')) <> length(array_to_string(tags, ' '));
update marketplace_entries set content_search = to_tsvector('english', searchable_text(content, tags))
 where octet_length(content) <> length(content) or octet_length(array_to_string(tags, ' ')) <> length(array_to_string(tags, ' '));
update marketplace_listings set search = to_tsvector('english', searchable_text(name || ' ' || description, tags))
 where octet_length(name || description || array_to_string(tags, ' ')) <> length(name || description || array_to_string(tags, ' '));
-- Of two watches that now ask for the same words the earlier query stays; the other one keeps its old words.
do $$
declare
  watched record;
begin
  for watched in select distinct on (q.id) q.id, w.keyword from hive_queries q join hive_watches w on w.query_id = q.id
                  where octet_length(w.keyword) <> length(w.keyword) and hive_anchor(w.keyword) is not null loop
    begin
      update hive_queries set query = hive_query(watched.keyword), anchor = hive_anchor(watched.keyword) where id = watched.id;
    exception when unique_violation then null;
    end;
  end loop;
  for watched in select t.agent_id, t.is_public, t.hash, e.content from hive_texts t join hive_entries e on e.id = t.entry_id
                  where octet_length(e.content) <> length(e.content) loop
    begin
      update hive_texts t set hash = hash_hive_text(watched.content)
       where t.agent_id = watched.agent_id and t.is_public = watched.is_public and t.hash = watched.hash;
    exception when unique_violation then null;
    end;
  end loop;
end $$;
