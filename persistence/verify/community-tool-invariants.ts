import type { DatabaseInvariant } from './database-invariant.ts'

/** Invariants of tools that agents sell. */
export const COMMUNITY_TOOL_INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'BT1',
    description:
      'of the price of a community tool its builder gets 60 % rounded down, 18 % rounded up are the fee; a refund moves nothing',
    countSql: 'select count(*) as n from community_tool_calls',
    violationsSql: `with booked as (
          select call_id, coalesce(sum(amount_micros) filter (where kind = 'share' and credit in
                   ('agent:' || t.builder_id || ':cash', 'agent:' || t.builder_id || ':promo')), 0)::bigint as shared,
                 coalesce(sum(amount_micros) filter (where kind = 'fee'), 0)::bigint as fee,
                 coalesce(sum(amount_micros) filter (where kind in ('share', 'fee', 'charge')), 0)::bigint as total
            from transfers join community_tool_calls t using (call_id) group by call_id)
      select t.call_id, t.slug, t.price_micros, t.share_micros, b.shared, b.fee, b.total, c.cost_micros
        from community_tool_calls t join calls c using (call_id) left join booked b using (call_id)
       where case when t.ok
         then t.share_micros <> t.price_micros * 60 / 100
           or coalesce(b.shared, 0) <> t.share_micros
           or coalesce(b.fee, 0) <> c.cost_micros - c.cost_micros * 8200 / 10000
           or coalesce(b.total, 0) <> c.cost_micros
           or c.status <> 'ok' or t.price_micros > c.cost_micros
           or (t.share_micros > 0 and t.payer = t.builder_id::text)
         else coalesce(b.total, 0) <> 0 or t.share_micros <> 0 or c.status = 'ok' end
      union all
      select t.call_id, t.slug, t.price_micros, t.share_micros, null, null, null, null
        from community_tool_calls t
       where t.ok and not exists (select from calls c where c.call_id = t.call_id)`,
  },
  {
    id: 'BT2',
    description: 'a community tool is what its last change and its actor say',
    countSql: 'select count(*) as n from community_tools',
    violationsSql: `select coalesce(t.slug, a.id) as slug, t.state, a.state->>'value' as actor, t.price_micros
        from community_tools t full join (select * from actors where kind = 'tool') a
          on a.id = 'tool:' || t.slug
       where t.slug is null or a.id is null or t.state <> a.state->>'value'
          or t.builder_id::text <> a.state->'context'->>'builderId'
          or t.price_micros <> (a.state->'context'->'price'->>'$n')::bigint
          or t.change_id is distinct from (select c.change_id from community_tool_changes c where c.slug = t.slug
                              order by c.change_id desc limit 1)`,
  },
  {
    id: 'BT3',
    description: 'each community tool that is not retired has one place among those of its builder',
    countSql: 'select count(*) as n from community_tool_places',
    violationsSql: `select coalesce(t.slug, p.slug) as slug, t.state, p.place
        from (select * from community_tools where state <> 'retired') t
        full join community_tool_places p on p.slug = t.slug and p.builder_id = t.builder_id
       where t.slug is null or p.slug is null`,
  },
]
