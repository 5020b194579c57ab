-- Inputs that a builder refuses are its callers' fault, unless it refuses half of the calls of five payers (decision 386).

-- Null in rows of earlier versions. The builder's own calls are never marked.
alter table community_tool_calls add column refused boolean;
create index community_tool_calls_refused on community_tool_calls (slug, at, payer) where refused;

-- The refusals of a tool that count as its failures, and of how many payers they are: of those for whom it has refused
-- at least half of their calls, if there are enough of them. Other calls are read only if so many were refused.
create function counted_refusals(tool text, since timestamptz, enough int, out calls int, out payers int)
language plpgsql stable as $$
begin
  select 0, count(distinct c.payer) into calls, payers from community_tool_calls c
   where c.slug = tool and c.refused and c.at >= since;
  if payers >= enough then
    select coalesce(sum(refusals), 0), count(*) into calls, payers from (
      select count(*) filter (where c.refused) as refusals from community_tool_calls c
       where c.slug = tool and c.at >= since and (c.counted or c.refused)
       group by c.payer having 2 * count(*) filter (where c.refused) >= count(*)) mostly;
  end if;
  if payers < enough then
    calls := 0;
    payers := 0;
  end if;
end $$;
