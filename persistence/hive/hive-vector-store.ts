import { toTextArrayLiteral } from '../postgres/array-literal.ts'
import type { Sql } from '../data-plane.ts'

export interface HiveEntryVector {
  readonly id: bigint
  readonly entryId: string
  readonly namespace: string
  readonly confidence: number
  readonly vector: readonly number[]
}

/** A page takes some ten milliseconds to read. */
const PAGE_ROWS = 300

/** Vectors of public entries, where the operator has a provider of them. */
export function createHiveVectorStore(sql: Sql) {
  return {
    /** Public entries that have none of this model yet, the newest first. */
    async missing(model: string, limit: number): Promise<{ id: string; content: string }[]> {
      return sql`
        select e.id, e.content from hive_entries e
         where e.is_public and not exists (
           select from hive_vectors v where v.entry_id = e.id and v.model = ${model})
         order by e.at desc limit ${limit}`
    },

    /** Two nodes may bring the same one: either is as good. An empty one says that there is none. */
    async keep(
      model: string,
      rows: readonly { id: string; vector: Float32Array }[],
    ): Promise<void> {
      const vectors = rows.map(({ vector }) => `{${[...vector].join(',')}}`)
      await sql.begin(async (tx) => {
        // Until the commit, and before an id is drawn: so they become visible in their order.
        await tx`select pg_advisory_xact_lock(hashtextextended('hive vectors', 0))`
        await tx`
          insert into hive_vectors (entry_id, model, vector)
          select id, ${model}, vector::real[]
            from unnest(${toTextArrayLiteral(rows.map(({ id }) => id))}::uuid[], ${toTextArrayLiteral(vectors)}::text[]) x(id, vector)
           order by id
          on conflict (entry_id) do update set model = excluded.model, vector = excluded.vector, id = default`
      })
    },

    /** The next vectors behind an id, in the order they came; the first time those of the last `most`. */
    async after(model: string, id: bigint | null, most: number): Promise<HiveEntryVector[]> {
      return sql`
        select v.id, e.id as "entryId", e.namespace, e.confidence, v.vector::float8[] as vector
          from (select * from hive_vectors where model = ${model} and vector <> '{}' and id > coalesce(${id}::bigint,
                  (select coalesce(max(id), 0) - ${most} from hive_vectors where model = ${model}))
                 order by id limit ${PAGE_ROWS}) v
          join hive_entries e on e.id = v.entry_id and e.is_public order by v.id`
    },
  }
}
export type HiveVectorStore = ReturnType<typeof createHiveVectorStore>
