import type { Sql } from '../start-postgres-and-redis.ts'

/** The states of a task, as its actor stores them. */
export type TaskSessionState = 'active' | 'completed' | 'abandoned'

/** List position of a Backpack: its creation time and its id. */
export interface BackpackListPosition {
  readonly id: string
  readonly createdAt: number
}

/**
 * Lists an agent's tasks and Backpacks, including those that are not loaded; their actors hold the
 * details.
 */
export function createTasksAndBackpacksListStore(sql: Sql) {
  return {
    /** Ids of an agent's tasks, newest first; `before` is the id of the last one seen. */
    async tasksOf(
      agentId: string,
      { state, backpackId }: { state: TaskSessionState | null; backpackId: string | null },
      limit: number,
      before: string | null,
    ): Promise<string[]> {
      const rows = await sql<{ id: string }[]>`
        select id from actors where aggregate_id = ${agentId} and kind = 'taskSession'
           and (${before}::text is null or id < ${before})
           and (${state}::text is null or state->>'value' = ${state})
           and (${backpackId}::text is null or state->'context'->>'backpackId' = ${backpackId})
         order by id desc limit ${limit}`
      return rows.map(({ id }) => id)
    },

    /**
     * An agent's Backpacks, or only the Backpack `only`, newest first; `before` is `createdAt id`
     * of the last one seen.
     */
    async backpacksOf(
      agentId: string,
      only: string | null,
      limit: number,
      before: string | null,
    ): Promise<BackpackListPosition[]> {
      const [at = null, id = null] = before?.split(' ') ?? []
      return sql<BackpackListPosition[]>`
        select id, at::float8 as "createdAt" from actors a,
               lateral (select (a.state->'context'->>'createdAt')::bigint as at) c
         where aggregate_id = ${agentId} and kind = 'backpack'
           and (${only}::text is null or id = ${only})
           and (${at}::bigint is null or at < ${at}::bigint
             or (at = ${at}::bigint and id < ${id}::text))
         order by at desc, id desc limit ${limit}`
    },
  }
}
export type TaskBackpackListStore = ReturnType<typeof createTasksAndBackpacksListStore>

/** The cursor that continues a list of Backpacks after this one. */
export const toBackpackCursor = ({ id, createdAt }: BackpackListPosition): string =>
  `${createdAt} ${id}`
