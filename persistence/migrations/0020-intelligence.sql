-- What providers cost the operator. A row a UTC day, over all nodes: an answer takes the most it may
-- cost and gives back what it did not, so that no number of answers at once gets past the budget.
create table llm_spend (
  day date primary key,
  spent_micros bigint not null check (spent_micros >= 0)
) with (fillfactor = 50);

-- The part of it that can be told of one call. Never part of its price.
create table call_costs (
  call_id uuid not null,
  provider text not null,
  cost_micros bigint not null,
  at timestamptz not null
);
create index call_costs_by_call on call_costs (call_id);
create index call_costs_by_time on call_costs using brin (at);

-- Who had which bundle made; a child names it as its `source` when it onboards.
create table forged_bundles (
  id uuid primary key,
  creator_id uuid,
  name text not null,
  framework text not null,
  call_id uuid not null,
  at timestamptz not null
);
create index forged_bundles_by_creator on forged_bundles (creator_id, id);

insert into stageable values ('call_costs'), ('forged_bundles');
