-- What waits in the pending list of a GIN index is read by every search until a vacuum comes by, and
-- keeps the planner from using the index at all: 40 ms instead of one for each word with a typing error.
-- New words are few: they go into the index at once. It is not there without pg_trgm.
alter index if exists hive_words_trigrams set (fastupdate = off);

do $$ begin
  if to_regclass('hive_words_trigrams') is not null then
    perform gin_clean_pending_list('hive_words_trigrams');
  end if;
end $$;
