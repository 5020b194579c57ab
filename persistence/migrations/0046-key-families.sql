-- The keys that follow one another by rotation are a family: schedules run under it, as its latest key. A
-- rotation because of a leak begins a new family, so that nothing made with the leaked key goes on by itself.
alter table api_keys add column family_id uuid;
create index api_keys_by_family on api_keys (coalesce(family_id, spending_id, id));
