-- Rewards in escrow: what each asks for, and how it ended. Rows are staged by commands; the actor of
-- a bounty decides, this is what lists read.

create table bounties (
  bounty_id uuid primary key,
  poster_id uuid not null,
  title text not null,
  description text not null,
  domain text not null,
  required_keywords text[] not null,
  min_quality int not null,
  reward_micros bigint not null,
  -- The part of the reward that is promotional.
  promo_micros bigint not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  -- Kept by the trigger below.
  status text not null,
  closed_reason text,
  closed_at timestamptz,
  claimed_by uuid
);
create index bounties_by_status on bounties (status, bounty_id);

-- The one end of each bounty; what was handed in is for the poster.
create table bounty_ends (
  bounty_id uuid primary key,
  status text not null,
  reason text not null,
  claimed_by uuid,
  content text,
  quality int,
  at timestamptz not null
);

create function end_bounty() returns trigger language plpgsql as $$
begin
  update bounties set status = new.status, closed_reason = new.reason, closed_at = new.at,
      claimed_by = new.claimed_by
    where bounty_id = new.bounty_id;
  return null;
end $$;
create trigger bounty_ends_bounty after insert on bounty_ends
  for each row execute function end_bounty();

-- A bounty is an aggregate of its own that is born in the commit of its poster: with its version,
-- its actor, its first journal row and its timer.
insert into stageable values ('bounties'), ('bounty_ends') on conflict do nothing;
insert into stageable values ('aggregates'), ('actors'), ('journal'), ('timers')
  on conflict do nothing;
