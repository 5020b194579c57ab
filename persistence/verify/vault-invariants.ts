import type { DatabaseInvariant } from './database-invariant.ts'

/** Invariants of memories, their free writes and purchased packs. */
export const VAULT_INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'V1',
    description:
      'the used free writes of an agent are its writes without a price, within the allowance',
    countSql: `select count(*) as n from actors where kind = 'tally'`,
    // A scheduled run pays its fee besides a free write.
    violationsSql: `with used as (select a.aggregate_id as agent, u.key as tool, u.value::int as n
          from actors a, jsonb_each_text(a.state->'context'->'used') u where a.kind = 'tally'),
        made as (select owner as agent, tool, count(*)::int as n from calls
          where tool = 'vault_write' and status = 'ok' and cost_micros < 10000 group by 1, 2)
      select coalesce(u.agent, m.agent) as agent, u.n as used, m.n as made
        from used u full join made m using (agent, tool)
       where u.n is distinct from m.n or u.n > 500`,
  },
  {
    id: 'V2',
    description: 'a pack is installed once, was paid for, and has all of its entries',
    countSql: 'select count(*) as n from pack_installs',
    violationsSql: `with owned as (select a.aggregate_id as agent, o.name
          from actors a, jsonb_array_elements_text(a.state->'context'->'owned') o(name) where a.kind = 'tally' and o.name like 'pack:%'),
        bought as (select agent_id::text as agent, 'pack:' || pack as name, count(*) as times, sum(entries) as entries,
            count(*) filter (where exists (select from calls c where c.call_id = p.call_id and c.status = 'ok'
              and c.cost_micros > 0)) as paid,
            sum((select count(*) from vault_memories m where m.call_id = p.call_id
              and m.namespace = 'pack:' || p.pack)) as there
          from pack_installs p group by 1, 2)
      select coalesce(o.agent, b.agent) as agent, coalesce(o.name, b.name) as name, b.times, b.paid, b.there
        from owned o full join bought b using (agent, name)
       where o.agent is null or b.times is distinct from 1 or b.paid <> 1 or b.there is distinct from b.entries`,
  },
  {
    id: 'V3',
    description:
      'an archived memory has a replacement of the same agent, and each consolidation was counted once',
    countSql: 'select count(*) as n from vault_memories',
    violationsSql: `select m.id::text as id, m.archived_as as why, null::int as orders from vault_memories m
       where m.archived_at is not null and not exists (
         select from vault_memories h where h.id = m.archived_by and h.agent_id = m.agent_id)
      union all
      select coalesce(a.aggregate_id, o.agent), 'orders', o.n from (
          select aggregate_id, (state->'context'->>'orders')::int as n from actors where kind = 'tally') a
        full join (select agent_id::text as agent, count(*)::int as n from vault_consolidations group by 1) o
          on o.agent = a.aggregate_id where coalesce(a.n, 0) <> coalesce(o.n, 0)`,
  },
]
