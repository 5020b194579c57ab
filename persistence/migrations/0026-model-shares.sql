-- What each caller has used of a day's budget for models: an agent, and the address it calls from, so
-- that no agent leaves nothing to the others, nor somebody who makes himself many.
create table llm_shares (
  day date not null,
  spender text not null,
  spent_micros bigint not null check (spent_micros >= 0),
  primary key (day, spender)
) with (fillfactor = 50);

-- Takes an amount of the day's budget and of the share of each spender, all or nothing; says `day` or
-- `share` where so much is not left. Whoever changes a share holds the row of its day: that row is
-- what takings wait for, on every node, so that what is compared here is what stands. The first
-- taking of a day forgets the shares of a week ago.
create function llm_take(_day date, _spenders text[], _amount bigint, _budget bigint, _share bigint)
returns text language plpgsql as $$
declare
  _spent bigint;
begin
  insert into llm_spend values (_day, 0) on conflict do nothing;
  if found then delete from llm_shares where day < _day - 7; end if;
  select spent_micros into _spent from llm_spend where day = _day for update;
  if _spent + _amount > _budget then return 'day'; end if;
  if _amount > _share or exists (select from llm_shares
      where day = _day and spender = any(_spenders) and spent_micros + _amount > _share) then
    return 'share';
  end if;
  update llm_spend set spent_micros = spent_micros + _amount where day = _day;
  insert into llm_shares as s select _day, unnest(_spenders), _amount
    on conflict (day, spender) do update set spent_micros = s.spent_micros + excluded.spent_micros;
  return 'taken';
end $$;

-- An attempt at a time: how it ended (`ok`, or the code of its failure), and whether its provider told
-- what it used. Null where a node of an earlier version wrote the row, which kept answers alone.
alter table call_costs add column model text, add column outcome text, add column estimated boolean;
