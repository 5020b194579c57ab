-- The marketplace: memories that agents sell to each other. All rows are staged by commands; the actor of a
-- listing decides about its end, lists read these tables.

create table marketplace_listings (
  listing_id uuid primary key,
  seller_id uuid not null,
  name text not null,
  description text not null,
  price_micros bigint not null,
  accepts_promo boolean not null,
  -- The sold memories, in the order in which the seller named them.
  memory_ids uuid[] not null,
  types text[] not null,
  tags text[] not null,
  -- The first words of three memories.
  previews text[] not null,
  created_at timestamptz not null,
  -- Set by the triggers below.
  withdrawn_at timestamptz,
  search tsvector
);
create index marketplace_listings_open on marketplace_listings (listing_id) where withdrawn_at is null;
create index marketplace_listings_by_seller on marketplace_listings (seller_id, listing_id);
create index marketplace_listings_search on marketplace_listings using gin (search);

-- The memories as they were when they were listed. A buyer gets copies of these.
create table marketplace_entries (
  listing_id uuid not null,
  position int not null,
  content text not null,
  type text not null,
  tags text[] not null,
  importance double precision not null,
  vector bytea not null,
  remembered_at timestamptz not null,
  -- Found once, since a purchase copies up to 200 of them inside the commit.
  content_search tsvector,
  primary key (listing_id, position)
);

create function snapshot_listing() returns trigger language plpgsql as $$
begin
  new.search := to_tsvector('english', searchable_text(new.name || ' ' || new.description, new.tags));
  insert into marketplace_entries
    select new.listing_id, listed.position, m.content, m.type, m.tags, m.importance, m.vector, m.at,
           m.content_search
      from unnest(new.memory_ids) with ordinality listed(id, position)
      join vault_memories m on m.id = listed.id and m.agent_id = new.seller_id;
  return new;
end $$;
create trigger marketplace_listings_snapshot before insert on marketplace_listings
  for each row execute function snapshot_listing();

create table marketplace_withdrawals (
  listing_id uuid not null,
  at timestamptz not null
);
create function withdraw_listing() returns trigger language plpgsql as $$
begin
  update marketplace_listings set withdrawn_at = new.at where listing_id = new.listing_id;
  return null;
end $$;
create trigger marketplace_withdrawals_apply after insert on marketplace_withdrawals
  for each row execute function withdraw_listing();

-- A purchase; its id is that of its call row and of its movements. `memory_ids` are the ids of the copies.
create table marketplace_purchases (
  purchase_id uuid not null,
  listing_id uuid not null,
  buyer_id uuid not null,
  price_micros bigint not null,
  memory_ids uuid[] not null,
  at timestamptz not null
);
create index marketplace_purchases_by_listing on marketplace_purchases (listing_id);
create index marketplace_purchases_by_buyer on marketplace_purchases (buyer_id, purchase_id);

-- The copies are immortal, as the memories of a pack are, and name the listing and the time of the original.
create function deliver_purchase() returns trigger language plpgsql as $$
begin
  insert into vault_memories (id, agent_id, content, type, tags, importance, immortal, namespace, origin, vector,
                              call_id, at, expires_at, content_search)
    select new.memory_ids[e.position], new.buyer_id, e.content, e.type, e.tags, e.importance, true,
           'listing:' || new.listing_id,
           jsonb_build_object('by', 'listing', 'listing', new.listing_id, 'position', e.position,
             'remembered_at', to_char(e.remembered_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
           e.vector, new.purchase_id, new.at, null, e.content_search
      from marketplace_entries e where e.listing_id = new.listing_id;
  return null;
end $$;
create trigger marketplace_purchases_deliver after insert on marketplace_purchases
  for each row execute function deliver_purchase();

create table marketplace_ratings (
  listing_id uuid not null,
  buyer_id uuid not null,
  stars int not null,
  at timestamptz not null
);
create index marketplace_ratings_by_listing on marketplace_ratings (listing_id);

insert into stageable values ('marketplace_listings'), ('marketplace_withdrawals'), ('marketplace_purchases'),
  ('marketplace_ratings');
