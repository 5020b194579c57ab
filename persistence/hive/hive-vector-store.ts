import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Embedding vectors of public Hive entries. */

export interface HiveEntryVector {
  readonly id: bigint
  readonly entryId: string
  readonly namespace: string
  readonly confidence: number
  readonly vector: readonly number[]
}

/** A page takes about ten milliseconds to read. */
const PAGE_ROWS = 300

/** Stores vectors, if the operator has configured an embedding provider. */
export function createHiveVectorStore(sql: Sql) {
  return {
    /** Public entries without a vector of this model, newest first. */
    async missing(model: string, limit: number): Promise<{ id: string; content: string }[]> {
      return sql`
        select e.id, e.content from hive_entries e
         where e.is_public and not exists (
           select from hive_vectors v where v.entry_id = e.id and v.model = ${model})
         order by e.at desc limit ${limit}`
    },

    /**
     * Stores a vector; of two concurrent ones either is kept. An empty one marks that there is
     * none.
     */
    async keep(
      model: string,
      rows: readonly { id: string; vector: Float32Array }[],
    ): Promise<void> {
      const vectors = rows.map(({ vector }) => `{${[...vector].join(',')}}`)
      await sql.begin(async (tx) => {
        // Locks before the id is drawn and until the commit, so that ids become visible in order.
        await tx`select pg_advisory_xact_lock(hashtextextended('hive vectors', 0))`
        await tx`
          insert into hive_vectors (entry_id, model, vector)
          select id, ${model}, vector::real[]
            from unnest(${toTextArrayLiteral(rows.map(({ id }) => id))}::uuid[], ${toTextArrayLiteral(vectors)}::text[]) x(id, vector)
           order by id
          on conflict (entry_id) do update set model = excluded.model, vector = excluded.vector, id = default`
      })
    },

    /** The next vectors after an id, in order; first the last `most` ones. */
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
