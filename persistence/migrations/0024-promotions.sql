-- Of two calls that promote one memory at once, one may. A call takes the memory for a moment; what its
-- commit promotes is in vault_promotions for good.
create table vault_promotion_claims (
  memory_id uuid primary key,
  call_id uuid not null,
  until timestamptz not null
);
