import { LIMITS } from '../../core/limits.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The latest refusals of each agent, with what explains them. */

export interface StoredExplainedRefusal {
  readonly id: string
  readonly agentId: string
  readonly keyId: string | null
  readonly code: string
  readonly times: number
  readonly firstAt: Date
  readonly lastAt: Date
  readonly data: Readonly<Record<string, unknown>>
}

type NewRefusal = Omit<StoredExplainedRefusal, 'firstAt' | 'lastAt'> & {
  readonly firstAt: number
  readonly lastAt: number
}

/** Creates the store. */
export function createExplainedRefusalStore(sql: Sql) {
  const columns = sql`id, agent_id as "agentId", key_id as "keyId", code, times,
    first_at as "firstAt", last_at as "lastAt", data`
  return {
    /** Adds to the counts of equal ones, over all nodes, and keeps the latest of each agent. */
    async add(refusals: readonly NewRefusal[]): Promise<void> {
      const rows = refusals.map((one) => ({
        id: one.id,
        agent_id: one.agentId,
        key_id: one.keyId,
        code: one.code,
        times: one.times,
        first_at: new Date(one.firstAt).toISOString(),
        last_at: new Date(one.lastAt).toISOString(),
        data: one.data,
      }))
      // The same order on every node prevents deadlocks.
      await sql`
        insert into refusals as r (id, agent_id, key_id, code, times, first_at, last_at, data)
        select id, agent_id, key_id, code, times, first_at, last_at, data
          from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb)
               x(id uuid, agent_id uuid, key_id uuid, code text, times int,
                 first_at timestamptz, last_at timestamptz, data jsonb)
         order by id
        on conflict (id) do update
          set times = r.times + excluded.times, last_at = greatest(r.last_at, excluded.last_at)`
      await sql`
        delete from refusals where id in (
          select old.id from unnest(${[...new Set(refusals.map((one) => one.agentId))]}::uuid[]) p(id),
         lateral (select r.id from refusals r where r.agent_id = p.id
                   order by r.last_at desc offset ${LIMITS.explainedRefusals}) old)`
    },

    async find(id: string): Promise<StoredExplainedRefusal | null> {
      const [row] = await sql<
        StoredExplainedRefusal[]
      >`select ${columns} from refusals where id = ${id}`
      return row ?? null
    },

    /** The latest of an agent; `keyId` limits them to one key. */
    async list(
      agentId: string,
      keyId: string | null,
      limit: number,
    ): Promise<StoredExplainedRefusal[]> {
      return sql<StoredExplainedRefusal[]>`
        select ${columns} from refusals where agent_id = ${agentId}
           and (${keyId === null} or key_id = ${keyId})
         order by last_at desc limit ${limit}`
    },
  }
}
export type ExplainedRefusalStore = ReturnType<typeof createExplainedRefusalStore>
