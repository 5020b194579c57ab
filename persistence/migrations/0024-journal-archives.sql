-- Old months of the journal in files (persistence/journal-archive/).

create table journal_archives (
  month date primary key,
  file text not null unique,
  sha256 text not null,
  bytes bigint not null,
  rows bigint not null,
  archived_at timestamptz not null default now()
);

-- Where the rows of an aggregate are: a row for each block of a file that has some of them. A file is
-- written before its month is in `journal_archives`, so only `archived_journal` shows what counts.
create table journal_archive_segments (
  aggregate_id text not null,
  first_version bigint not null,
  last_version bigint not null,
  earliest_at timestamptz not null,
  month date not null,
  block_offset bigint not null,
  block_bytes int not null,
  -- What invariants read of commands: whether one set a Backpack, and the absorbed messages.
  sets_backpack boolean not null,
  absorbed text[],
  primary key (aggregate_id, first_version)
);
create index journal_archive_segments_by_month on journal_archive_segments (month);

create view archived_journal as
  select s.*, a.file from journal_archive_segments s join journal_archives a using (month);
