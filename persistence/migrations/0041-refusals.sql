-- What Backpacks have refused: one row for each tool and code a minute, however often it was asked.
create table backpack_refusals (
  id uuid primary key,
  backpack_id text not null,
  tool text not null,
  code text not null,
  minute timestamptz not null,
  times int not null,
  last_at timestamptz not null,
  unique (backpack_id, tool, code, minute)
);
create index backpack_refusals_listed on backpack_refusals (backpack_id, id);
create index backpack_refusals_by_time on backpack_refusals (last_at);
