-- The bonus of a first deposit is given once an owner, and all bonuses of a day are bounded (decision 385).

-- Staged in the commit that credits the bonus, with the bounds of an owner and a day at that time.
create table deposit_bonuses (
  -- The agent or the fleet.
  receiver uuid not null,
  amount_micros bigint not null check (amount_micros > 0),
  owner_limit_micros bigint not null,
  day_limit_micros bigint not null,
  at timestamptz not null
);
create index deposit_bonuses_by_time on deposit_bonuses (at);

-- The names of owners that have had their bonus.
create table bonus_owners (
  owner text primary key,
  receiver uuid not null
);
create index bonus_owners_by_receiver on bonus_owners (receiver);

-- The names of the owner of an agent or a fleet: the agent, its confirmed address and the other agents that have it
-- confirmed; without an address, the agents of the sessions that manage it. An address where messages come from counts
-- for nothing.
create function bonus_owner_names(receiver uuid) returns setof text language sql stable as $$
  with agent as materialized (
         select coalesce((select f.owner_id from fleets f where f.fleet_id = $1), $1) as id),
       confirmed as (
         select c.agent_id, c.email from confirmed_contacts c join agents a on a.agent_id = c.agent_id
          where lower(a.contact_email) = c.email),
       address as materialized (
         select c.email from confirmed c where c.agent_id = (select id from agent))
  select 'agent:' || id from agent
  union select 'email:' || email from address
  union select 'agent:' || c.agent_id from confirmed c where c.email = (select email from address)
  union select 'agent:' || other.agent_id
    from owner_session_agents mine join owner_sessions s on s.hash = mine.hash and s.expires_at > now()
    join owner_session_agents other on other.hash = mine.hash
   where mine.agent_id = (select id from agent) and not exists (select from address)
$$;

-- What a bonus of this receiver may be: the bound of an owner, 0 while the day has no room for one (decision 492), null
-- if the owner has had one. One that a reorganisation has undone may be given to the same receiver again.
create function deposit_bonus_left(receiver uuid, owner_limit bigint, day_limit bigint) returns bigint
  language sql stable as $$
  select case
    when exists (select from bonus_owners o
      where o.owner in (select bonus_owner_names($1)) and o.receiver <> $1) then null
    when owner_limit + (select coalesce(sum(b.amount_micros), 0) from deposit_bonuses b
      where b.at >= date_trunc('day', now() at time zone 'UTC') at time zone 'UTC' and b.receiver <> $1) > day_limit then 0
    else owner_limit end
$$;

-- An inbox message; a deposit tells what is left for its bonus now.
create function with_bonus_left(event jsonb, receiver text, owner_limit bigint, day_limit bigint) returns jsonb
  language sql stable as $$
  select case event->>'type' when 'DEPOSIT' then event || jsonb_build_object('bonusLeft',
    (select jsonb_build_object('$n', l::text) from deposit_bonus_left(receiver::uuid, owner_limit, day_limit) l
      where l is not null)) else event end
$$;

-- Those of earlier versions.
insert into bonus_owners
  select distinct on (name) name, receiver from (
    select split_part(credit, ':', 2)::uuid as receiver from ledger
     where kind = 'bonus' and credit ~ '^(agent|fleet):[0-9a-f-]{36}:promo$') given,
    bonus_owner_names(given.receiver) name
   order by name, receiver
  on conflict do nothing;

-- The key of a name decides between concurrent commits, and refuses the second one. That of an agent then reads its
-- inbox again, with what is left; that of a fleet is repeated by its caller.
create function claim_deposit_bonus() returns trigger language plpgsql as $$
declare
  claimed bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('deposit_bonuses', 0));
  delete from bonus_owners where receiver = new.receiver;
  with fresh as (
    insert into bonus_owners select n, new.receiver from bonus_owner_names(new.receiver) n order by n
    on conflict do nothing returning owner)
  select count(*) into claimed from fresh;
  if claimed = (select count(*) from bonus_owner_names(new.receiver))
     and new.amount_micros <= deposit_bonus_left(new.receiver, new.owner_limit_micros, new.day_limit_micros) then
    return null;
  end if;
  raise exception 'the owner of % has had the bonus, or the day has no more', new.receiver
    using table = 'deposit_bonuses', errcode = case when exists (select from fleets where fleet_id = new.receiver)
      then 'unique_violation' else 'serialization_failure' end;
end $$;
create trigger deposit_bonuses_once after insert on deposit_bonuses
  for each row execute function claim_deposit_bonus();

insert into stageable values ('deposit_bonuses');
