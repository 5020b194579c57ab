import type { PendingQuery, Row } from 'postgres'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Whom public places name (decision 299): the one rule, which each of their queries contains. */

type Fragment = PendingQuery<Row[]>

/** Whether public places name the agent of `a`, a row of `agents`. */
export const isPublicAgentSql = (sql: Sql | DatabaseTransaction): Fragment => sql`a.discoverable`

/** The agents of these columns that public places name, as an array of ids. */
export const publicAgentIdsSql = (sql: Sql, ...ids: readonly Fragment[]): Fragment =>
  sql`array(select a.agent_id::text from agents a
             where a.agent_id in (${ids.flatMap((id, at) => (at === 0 ? [id] : [sql`,`, id]))})
               and ${isPublicAgentSql(sql)})`

/** The author of a Hive entry `e`; null if public places do not name it, or the entry came from a private call. */
export const publicHiveAuthorIdSql = (sql: Sql): Fragment =>
  sql`(select a.agent_id from agents a where a.agent_id = e.agent_id and not e.ghost and ${isPublicAgentSql(sql)})`
