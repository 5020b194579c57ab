-- Tools that agents sell: what they say, what was forwarded to their builders, and the shares of the builders.

-- Tools as they are now; those that are retired stay, so that no other tool takes their name.
create table community_tools (
  slug text primary key,
  -- Equal for slugs that may be mistaken for each other.
  looks text not null unique,
  tool_id uuid not null,
  builder_id uuid not null,
  builder_name text not null,
  builder_visitor text not null,
  state text not null,
  definition jsonb not null,
  price_micros bigint not null,
  next_price_micros bigint,
  next_price_from timestamptz,
  accepts_promo boolean not null,
  review text not null,
  review_reason text,
  secret_number int not null,
  measured_from timestamptz not null,
  registered_at timestamptz not null,
  change_id uuid not null
);
create index community_tools_by_builder on community_tools (builder_id, registered_at, slug);
create index community_tools_by_review on community_tools (registered_at, slug) where review = 'asked';

-- Each change of a tool, staged by its commands. What is null stays as it was, and so do the fields of `definition`
-- that a change does not name.
create table community_tool_changes (
  change_id uuid primary key,
  slug text not null,
  looks text not null,
  tool_id uuid not null,
  builder_id uuid not null,
  builder_name text,
  builder_visitor text,
  -- Of a new tool.
  place int,
  state text not null,
  definition jsonb,
  price_micros bigint not null,
  next_price_micros bigint,
  next_price_from timestamptz,
  accepts_promo boolean not null,
  review text not null,
  review_reason text,
  secret_number int not null,
  measured_from timestamptz not null,
  registered_at timestamptz not null,
  at timestamptz not null
);
create index community_tool_changes_by_slug on community_tool_changes (slug, change_id);

-- The tools of a builder that are not retired, each with a place of its own: their number never exceeds the limit.
create table community_tool_places (
  builder_id uuid not null,
  place int not null,
  slug text not null unique,
  primary key (builder_id, place)
);

create function apply_community_tool_change() returns trigger language plpgsql as $$
begin
  update community_tools set builder_name = coalesce(new.builder_name, builder_name),
      builder_visitor = coalesce(new.builder_visitor, builder_visitor), state = new.state,
      definition = definition || coalesce(new.definition, '{}'), price_micros = new.price_micros,
      next_price_micros = new.next_price_micros, next_price_from = new.next_price_from,
      accepts_promo = new.accepts_promo, review = new.review, review_reason = new.review_reason,
      secret_number = new.secret_number, measured_from = new.measured_from, change_id = new.change_id
    where slug = new.slug;
  if found then
    if new.state = 'retired' then delete from community_tool_places where slug = new.slug; end if;
    return null;
  end if;
  insert into community_tool_places values (new.builder_id, new.place, new.slug);
  insert into community_tools (slug, looks, tool_id, builder_id, builder_name, builder_visitor, state, definition,
      price_micros, next_price_micros, next_price_from, accepts_promo, review, review_reason, secret_number,
      measured_from, registered_at, change_id)
    values (new.slug, new.looks, new.tool_id, new.builder_id, new.builder_name, new.builder_visitor, new.state,
      new.definition, new.price_micros, new.next_price_micros, new.next_price_from, new.accepts_promo,
      new.review, new.review_reason, new.secret_number, new.measured_from, new.registered_at, new.change_id);
  return null;
end $$;
create trigger community_tool_changes_apply after insert on community_tool_changes
  for each row execute function apply_community_tool_change();

-- Each call that was sent to a builder. A charged one is staged in the commit of its call; a refunded one is
-- written beside it. `counted`: by an agent that is not the builder's own, for the quality of the tool.
create table community_tool_calls (
  call_id uuid primary key,
  slug text not null,
  builder_id uuid not null,
  -- Agent, wallet or address that paid.
  payer text not null,
  ok boolean not null,
  -- The reason of a refund, and what was wrong with the answer, without data of the caller.
  error_code text,
  error_detail text,
  ms int not null,
  -- Of the call, and the part of it for the builder.
  price_micros bigint not null,
  share_micros bigint not null,
  counted boolean not null,
  at timestamptz not null
);
create index community_tool_calls_by_slug on community_tool_calls (slug, at);
create index community_tool_calls_by_builder on community_tool_calls (builder_id, at);
create index community_tool_calls_by_time on community_tool_calls (at);
-- Summed after the commits too (0015).
create trigger community_tool_calls_late after insert on community_tool_calls for each row
  when (new.counted and new.at < clock_timestamp() - interval '2 seconds') execute function record_late_row();

-- Counted calls of a tool by hour, and when each payer last got an answer, since the tool's endpoint was proven at
-- `since`. Summed after the commits, as the figures of 0015 are.
create table community_tool_hours (
  slug text not null,
  since timestamptz not null,
  hour timestamptz not null,
  calls bigint not null,
  ok bigint not null,
  primary key (slug, since, hour)
);
create index community_tool_hours_by_time on community_tool_hours (hour);
create table community_tool_payers (
  slug text not null,
  since timestamptz not null,
  payer text not null,
  last_at timestamptz not null,
  primary key (slug, since, payer)
);
create index community_tool_payers_by_time on community_tool_payers (last_at);

insert into stageable values ('community_tool_changes'), ('community_tool_calls');

-- Calls by members of a fleet that the builder owns or is in do not count for the quality of its tools.
create function discount_own_community_call() returns trigger language plpgsql as $$
begin
  new.counted := not exists (
    select from (
      select fleet_id from fleets where owner_id = new.builder_id
      union select fleet_id from fleet_members where agent_id = new.builder_id) own
     where exists (select from fleet_members m where m.fleet_id = own.fleet_id and m.agent_id::text = new.payer)
        or exists (select from fleets f where f.fleet_id = own.fleet_id and f.owner_id::text = new.payer));
  return new;
end $$;
create trigger community_tool_calls_discount before insert on community_tool_calls
  for each row when (new.counted) execute function discount_own_community_call();

-- Credentials of services that agents import, each sent to its origin only.
create table tool_credentials (
  builder_id uuid not null,
  origin text not null,
  header text not null,
  sealed bytea not null,
  at timestamptz not null,
  primary key (builder_id, origin)
);
select guard_sealed('tool_credentials', 'sealed');
