-- A key may act in one Backpack only, and may have a limit for each UTC day and each UTC month.
alter table api_keys
  add column backpack_id text,
  add column cap_per_day_micros bigint check (cap_per_day_micros >= 0),
  add column cap_per_month_micros bigint check (cap_per_month_micros >= 0);

