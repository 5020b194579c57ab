import { snapshotAmountSql, type DatabaseInvariant } from './database-invariant.ts'

/** Invariants of the marketplace. */
export const MEMORY_MARKETPLACE_INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'M1',
    description:
      'a listing is bought once an agent at its price: 82 % rounded down to its seller, the rest to the treasury, all copies in the vault of the buyer',
    countSql: 'select count(*) as n from marketplace_purchases',
    violationsSql: `with moved as materialized (select call_id, count(*) filter (where kind = 'sale') as sales,
          string_agg(distinct split_part(credit, ':', 2), ' ') filter (where kind = 'sale') as seller,
          string_agg(distinct split_part(debit, ':', 2), ' ') as payer,
          coalesce(sum(amount_micros) filter (where kind = 'sale'), 0)::bigint as share,
          coalesce(sum(amount_micros) filter (where kind = 'sale_fee'), 0)::bigint as fee
          from transfers where kind in ('sale', 'sale_fee') group by call_id),
        owned as (select a.aggregate_id as agent, substr(o.name, 9) as listing
          from actors a, jsonb_array_elements_text(a.state->'context'->'owned') o(name)
         where a.kind = 'tally' and o.name like 'listing:%'),
        bought as (select buyer_id::text as agent, listing_id::text as listing, count(*) as times
          from marketplace_purchases group by 1, 2),
        copies as (select call_id, count(*) as n from vault_memories where origin->>'by' = 'listing' group by 1)
      select p.purchase_id::text as id, p.price_micros as price, m.share, m.fee, m.payer, m.seller, c.n as copies
        from marketplace_purchases p join marketplace_listings l using (listing_id)
        left join moved m on m.call_id = p.purchase_id left join copies c on c.call_id = p.purchase_id
       where p.price_micros <> l.price_micros or m.share is distinct from l.price_micros * 8200 / 10000
          or m.share + m.fee is distinct from l.price_micros or m.seller is distinct from l.seller_id::text
          or m.payer is distinct from p.buyer_id::text or p.buyer_id = l.seller_id
          or c.n is distinct from cardinality(l.memory_ids)
          or not exists (select from calls k where k.owner = p.buyer_id::text and k.call_id = p.purchase_id
               and k.cost_micros = l.price_micros)
      union all
      select m.call_id::text, null, m.share, m.fee, m.payer, m.seller, null from moved m
       where not exists (select from marketplace_purchases p where p.purchase_id = m.call_id)
      union all
      select coalesce(o.listing, b.listing), null, null, null, coalesce(o.agent, b.agent), 'owned', b.times
        from owned o full join bought b using (agent, listing)
       where o.agent is null or b.times is distinct from 1`,
  },
  {
    id: 'M2',
    description:
      'the row of a listing equals its actor, which counts each sale and each rating once',
    countSql: 'select count(*) as n from marketplace_listings',
    violationsSql: `with told as (select receiver, event from inbox where receiver_kind = 'listing' and absorbed_at is null),
        said as (select a.id, a.state->>'value' as state, a.state->'context' as c from actors a where a.kind = 'listing'),
        counted as (select s.*,
          (s.c->>'sold')::bigint + (select count(*) from told t where t.receiver = s.id and t.event->>'type' = 'SOLD') as sold,
          ${['promo', 'cash'].map((part) => `${snapshotAmountSql(`s.c->'${part}'`)}`).join(' + ')} + coalesce((
            select sum(${snapshotAmountSql(`t.event->'promo'`)} + ${snapshotAmountSql(`t.event->'cash'`)}) from told t
             where t.receiver = s.id and t.event->>'type' = 'SOLD'), 0) as earned,
          (s.c->>'ratings')::bigint + (select count(*) from told t where t.receiver = s.id and t.event->>'type' = 'RATED') as ratings,
          (s.c->>'stars')::bigint + coalesce((select sum((t.event->>'stars')::int) from told t
             where t.receiver = s.id and t.event->>'type' = 'RATED'), 0) as stars from said s)
      select coalesce(s.id, l.listing_id::text) as id, s.state, s.sold, s.earned, s.ratings from counted s
        full join marketplace_listings l on l.listing_id::text = s.id
        left join lateral (select count(*) as n from marketplace_purchases p where p.listing_id = l.listing_id) p on true
        left join lateral (select count(*) as n, count(distinct buyer_id) as buyers, coalesce(sum(stars), 0) as stars
          from marketplace_ratings r where r.listing_id = l.listing_id) r on true
       where s.state is distinct from case when l.withdrawn_at is null then 'open' else 'withdrawn' end
          or s.c->>'sellerId' is distinct from l.seller_id::text
          or ${snapshotAmountSql(`s.c->'price'`)} is distinct from l.price_micros
          or (s.c->>'entries')::int is distinct from (select count(*) from marketplace_entries e where e.listing_id = l.listing_id)
          or s.sold is distinct from p.n or s.earned is distinct from p.n * (l.price_micros * 8200 / 10000)
          or s.ratings is distinct from r.n or s.stars is distinct from r.stars or r.n is distinct from r.buyers`,
  },
]
