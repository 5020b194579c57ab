import type { TransactionSql } from 'postgres'
import { msUntilNextUtcDay } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { Sql } from './start-postgres-and-redis.ts'

/**
 * Counts the stored reply of a plain write against an agent's UTC day; false if it exceeds the
 * quota. Runs in the transaction that stores the reply: exact over any number of nodes.
 */
export async function reserveDailyStoredReplyBytes(
  db: Sql | TransactionSql<{ bigint: bigint }>,
  agentId: string,
  bytes: number,
): Promise<boolean> {
  const counted = await db`
    insert into daily_reply_bytes (agent_id, day, bytes)
    values (${agentId}, (now() at time zone 'UTC')::date, ${bytes})
    on conflict (agent_id, day) do update set bytes = daily_reply_bytes.bytes + excluded.bytes
      where daily_reply_bytes.bytes + excluded.bytes <= ${LIMITS.storedResponseBytesPerDay}`
  return counted.count > 0
}

/**
 * Counts the bytes an agent stores in a clipboard or a keyring this UTC day, in the transaction
 * that stores them. Rejects with `daily_bytes_exceeded` (429) above `LIMITS.storedBytesPerDay`.
 */
export async function reserveDailyClipboardOrKeyringBytes(
  tx: TransactionSql<{ bigint: bigint }>,
  agentId: string,
  bytes: number,
  at: Date,
): Promise<void> {
  const limit = LIMITS.storedBytesPerDay
  const counted = await tx`
    insert into daily_storage_bytes as s (agent_id, day, bytes)
    values (${agentId}, (now() at time zone 'UTC')::date, ${bytes})
    on conflict (agent_id, day) do update set bytes = s.bytes + excluded.bytes
      where s.bytes + excluded.bytes <= ${limit}`
  if (counted.count > 0) return
  const retry_after = Math.ceil(msUntilNextUtcDay(at.getTime()) / 1_000)
  throw new ServiceError('daily_bytes_exceeded', { limit_bytes: limit, retry_after })
}
