import type { Sql } from '../persistence/postgres/postgres-connection-pool.ts'
import type { RetriedAgentRequest } from './chaos-agent-operations-with-retries.ts'

/** Acknowledged operations compared with the database. */
export interface OperationsLedgerComparison {
  readonly operations: number
  readonly acknowledged: number
  /** Acknowledged, but missing in the ledger or stored under another id. */
  readonly lost: number
  /** Charged or moved more often than requested. */
  readonly double: number
  /** Rejected without a cause. */
  readonly wronglyRejected: number
}

interface StoredReplyRow {
  readonly owner: string
  readonly key: string
  /** The id of the call, or of the transfer of a write. */
  readonly id: string
  readonly status: string
}
interface MovedTransferRow {
  readonly owner: string
  readonly id: string
}

/** Compares acknowledged with committed operations, in both directions. */
export async function compareOperationsWithLedger(
  sql: Sql,
  operations: readonly RetriedAgentRequest[],
): Promise<OperationsLedgerComparison> {
  const owners = [...new Set(operations.map(({ agent }) => agent.id))]
  const kept = await sql<StoredReplyRow[]>`
    select owner, idempotency_key as key, status,
           coalesce(response::jsonb #>> '{body,transfer_id}', response::jsonb #>> '{body,call_id}',
                    call_id::text) as id
      from calls where owner = any(${owners}::text[]) and idempotency_key is not null`
  const moved = await sql<MovedTransferRow[]>`
    select owner, call_id::text as id from transfers
     where owner = any(${owners}::text[]) and kind in ('charge', 'send', 'tip') and call_id is not null
     group by owner, call_id`
  const nameOf = ({ owner, key }: Pick<StoredReplyRow, 'owner' | 'key'>) => `${owner} ${key}`
  const answers = new Map(kept.map((row) => [nameOf(row), row]))
  const known = new Set(kept.map(({ owner, id }) => `${owner} ${id}`))
  const paid = new Set(moved.map(({ owner, id }) => `${owner} ${id}`))
  const isLost = ({ agent, key, acknowledged }: RetriedAgentRequest) =>
    acknowledged !== null &&
    (answers.get(nameOf({ owner: agent.id, key }))?.id !== acknowledged ||
      !paid.has(`${agent.id} ${acknowledged}`))
  return {
    operations: operations.length,
    acknowledged: operations.filter(({ acknowledged }) => acknowledged !== null).length,
    lost: operations.filter(isLost).length,
    double: kept.length - answers.size + [...paid].filter((name) => !known.has(name)).length,
    wronglyRejected: operations.filter(({ refused }) => refused !== null).length,
  }
}

/** Returns the process id of a database backend of the station. */
export async function findDatabaseBackendPid(sql: Sql): Promise<number | null> {
  const [row] = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity
     where application_name = 'gas-station' and pid <> pg_backend_pid()
     order by query like '%commit_batch%' desc, state_change desc limit 1`
  return row?.pid ?? null
}
