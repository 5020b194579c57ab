-- What this station has offered, as it changed: a row each time it started with another catalogue than
-- the row before. `tools` is the whole of it then, `changes` what differs from the row before.
create table catalogue_revisions (
  revision integer primary key check (revision > 0),
  at timestamptz not null,
  version text not null,
  tools jsonb not null,
  changes jsonb not null
);
create index catalogue_revisions_by_time on catalogue_revisions (at);
