-- Costs and budgets of providers, forged bundles, and revisions of the tool catalogue.

-- Model spending by UTC day over all nodes. An answer reserves its maximum cost and returns the unused
-- part, so concurrent answers cannot exceed the budget.
create table llm_spend (
  day date primary key,
  spent_micros bigint not null check (spent_micros >= 0)
) with (fillfactor = 50);

-- Model spending of each caller by day: an agent, and its address, so neither one agent nor one person
-- with many agents can use up the budget.
create table llm_caller_spend (
  day date not null,
  spender text not null,
  spent_micros bigint not null check (spent_micros >= 0),
  primary key (day, spender)
) with (fillfactor = 50);

-- Reserves an amount of the day's budget and of the share of each spender, all or nothing; returns `day` or
-- `share` where too little is left. The row of the day is locked before any share of it, on every node,
-- so the compared amounts are current. The first reservation of a day deletes shares older than a week.
create function reserve_llm_spend(_day date, _spenders text[], _amount bigint, _budget bigint, _share bigint)
returns text language plpgsql as $$
declare
  _spent bigint;
begin
  insert into llm_spend values (_day, 0) on conflict do nothing;
  if found then delete from llm_caller_spend where day < _day - 7; end if;
  select spent_micros into _spent from llm_spend where day = _day for update;
  if _spent + _amount > _budget then return 'day'; end if;
  if _amount > _share or exists (select from llm_caller_spend
      where day = _day and spender = any(_spenders) and spent_micros + _amount > _share) then
    return 'share';
  end if;
  update llm_spend set spent_micros = spent_micros + _amount where day = _day;
  insert into llm_caller_spend as s select _day, unnest(_spenders), _amount
    on conflict (day, spender) do update set spent_micros = s.spent_micros + excluded.spent_micros;
  return 'taken';
end $$;

-- The provider cost of each attempt of a call; never part of its price. `outcome` is `ok` or an error code.
create table call_costs (
  call_id uuid not null,
  provider text not null,
  cost_micros bigint not null,
  at timestamptz not null,
  model text,
  outcome text,
  -- Whether the cost is an estimate, because the provider did not report its usage.
  estimated boolean
);
create index call_costs_by_call on call_costs (call_id);
create index call_costs_by_time on call_costs using brin (at);

-- Bundles and their creators; a child names its bundle as `source` when it onboards.
create table forged_bundles (
  id uuid primary key,
  creator_id uuid,
  name text not null,
  framework text not null,
  call_id uuid not null,
  at timestamptz not null
);
create index forged_bundles_by_creator on forged_bundles (creator_id, id);

-- The tool catalogue: one row each time a start finds it changed. `tools` is the whole catalogue, `changes`
-- the difference from the row before.
create table catalogue_revisions (
  revision integer primary key check (revision > 0),
  at timestamptz not null,
  version text not null,
  tools jsonb not null,
  changes jsonb not null
);
create index catalogue_revisions_by_time on catalogue_revisions (at);

insert into stageable values ('call_costs'), ('forged_bundles');
