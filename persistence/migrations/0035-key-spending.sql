-- A key that replaced another goes on with what that one has spent: both count under one id. Null: its own.
alter table api_keys add column spending_id uuid;
create index api_keys_by_spending on api_keys (coalesce(spending_id, id));
