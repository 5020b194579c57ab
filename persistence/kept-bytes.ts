import type { TransactionSql } from 'postgres'
import { LIMITS } from '../core/limits.ts'
import type { Sql } from './plane.ts'

/**
 * Counts the answer of a plain write among those kept for an agent this UTC day; false where it would
 * be too much. In the transaction that keeps the answer: exact on any number of nodes.
 */
export async function countKept(
  db: Sql | TransactionSql<{ bigint: bigint }>,
  agentId: string,
  bytes: number,
): Promise<boolean> {
  const counted = await db`
    insert into kept_bytes (agent_id, day, bytes)
    values (${agentId}, (now() at time zone 'UTC')::date, ${bytes})
    on conflict (agent_id, day) do update set bytes = kept_bytes.bytes + excluded.bytes
      where kept_bytes.bytes + excluded.bytes <= ${LIMITS.keptBytesPerDay}`
  return counted.count > 0
}
