-- Task passes: calls bought in advance. What is left of a pass is in its agent's state.

-- One row a bought pass, in the commit that pays it.
create table task_passes (
  pass_id uuid primary key,
  agent_id uuid not null,
  pass text not null,
  calls int not null check (calls > 0),
  -- Of one call.
  price_micros bigint not null check (price_micros > 0),
  -- What was paid, by kind of credits.
  promo_micros bigint not null,
  cash_micros bigint not null,
  bought_at timestamptz not null,
  expires_at timestamptz,
  check (promo_micros + cash_micros = calls * price_micros)
);
create index task_passes_by_agent on task_passes (agent_id, pass_id);

insert into stageable values ('task_passes');
