-- What an author has earned by being read, and was paid, as a running sum: reading it costs the same
-- however long it has earned. A commit that owes or pays only appends what it adds, so that calls never
-- wait for each other at the row of a popular author; what was appended is added up soon after.

-- At once as strongly as it is needed at the end: a round that pays, on a node of before, would be in between.
lock table royalties in access exclusive mode;

create table royalty_changes (
  id bigint generated always as identity primary key,
  author uuid not null,
  earned_micros bigint not null,
  paid_micros bigint not null
);
create index royalty_changes_by_author on royalty_changes (author) include (earned_micros, paid_micros);

create table royalty_sums (
  author uuid primary key,
  earned_micros bigint not null,
  paid_micros bigint not null
) with (fillfactor = 80);

create function note_owed_royalties() returns trigger language plpgsql as $$
begin
  insert into royalty_changes (author, earned_micros, paid_micros)
    select f.author, sum(f.amount_micros), coalesce(sum(f.amount_micros) filter (where f.paid_by is not null), 0)
      from fresh f group by f.author;
  return null;
end $$;
create function note_paid_royalties() returns trigger language plpgsql as $$
begin
  insert into royalty_changes (author, earned_micros, paid_micros)
    select f.author, 0, sum(f.amount_micros)
      from fresh f join stale s using (entry_id, reader, day)
     where f.paid_by is not null and s.paid_by is null group by f.author;
  return null;
end $$;
-- With the triggers the table is locked against writers: what is owed before is summed here, the rest there.
create trigger royalties_note_owed after insert on royalties
  referencing new table as fresh for each statement execute function note_owed_royalties();
create trigger royalties_note_paid after update on royalties
  referencing old table as stale new table as fresh for each statement execute function note_paid_royalties();
insert into royalty_sums
  select author, sum(amount_micros), coalesce(sum(amount_micros) filter (where paid_by is not null), 0)
    from royalties group by author;

-- They served the sums alone.
drop index royalties_owed;
drop index royalties_by_author;
