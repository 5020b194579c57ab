import type { DatabaseInvariant } from './database-invariant.ts'

/** The invariants of the journal that SQL checks; archived rows count by their places. */
export const JOURNAL_INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'I10',
    description:
      'the version of an aggregate is the number of its journal rows, the archived ones first',
    countSql: 'select count(*) as n from aggregates',
    violationsSql: `with archived as (select aggregate_id, sum(last_version - first_version + 1)::bigint as rows,
          max(last_version) as last from archived_journal group by 1)
      select a.id, a.version, count(j.version) as rows, x.rows as archived from aggregates a
      left join journal j on j.aggregate_id = a.id left join archived x on x.aggregate_id = a.id
      group by a.id, a.version, x.rows, x.last
      having a.version <> count(j.version) + coalesce(x.rows, 0)
          or a.version <> coalesce(greatest(max(j.version), x.last), 0)
          or x.rows <> x.last or min(j.version) <= x.last`,
  },
  {
    id: 'I12',
    description: 'each inbox message is absorbed once',
    countSql: 'select count(*) as n from inbox',
    violationsSql: `with told as (select j.aggregate_id, m.id from journal j,
          jsonb_array_elements_text(j.command->'input'->'messages') m(id)
          where j.command->>'name' = 'inbox.absorb'
          union all select aggregate_id, unnest(absorbed) from archived_journal),
        heard as (select aggregate_id, id, count(*) as times from told group by 1, 2)
      select coalesce(h.aggregate_id, i.receiver) as receiver, coalesce(h.id, i.id) as id, h.times, i.absorbed_at
        from heard h full join (select * from inbox where absorbed_at is not null) i
          on i.receiver = h.aggregate_id and i.id = h.id
       where h.times is distinct from 1 or i.id is null`,
  },
]
