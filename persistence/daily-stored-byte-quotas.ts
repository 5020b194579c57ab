import type { TransactionSql } from 'postgres'
import { msUntilNextUtcDay, utcDay, type Clock } from '../core/clock.ts'
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
 * Counts bytes that an agent stores this UTC day, in the transaction that stores them. Rejects with
 * `daily_bytes_exceeded` (429) above `LIMITS.storedBytesPerDay`.
 */
export async function reserveDailyStoredBytes(
  tx: TransactionSql<{ bigint: bigint }>,
  agentId: string,
  bytes: number,
  at: Date,
): Promise<void> {
  const limit = LIMITS.storedBytesPerDay
  if (!(await addDailyBytes(tx, { agentId, bytes, limit }))) throw bytesExceeded(limit, bytes, at)
}

/** Adds to the bytes of the day; false if they would exceed the limit. */
async function addDailyBytes(
  db: Sql | TransactionSql<{ bigint: bigint }>,
  { agentId, bytes, limit }: { agentId: string; bytes: number; limit: number },
): Promise<boolean> {
  const counted = await db`
    insert into daily_storage_bytes as s (agent_id, day, bytes)
    values (${agentId}, (now() at time zone 'UTC')::date, ${bytes})
    on conflict (agent_id, day) do update set bytes = s.bytes + excluded.bytes
      where s.bytes + excluded.bytes <= ${limit}`
  return counted.count > 0
}

const bytesExceeded = (limit: number, bytes: number, at: Date): ServiceError =>
  new ServiceError('daily_bytes_exceeded', {
    detail: `The agent may store ${limit} bytes a day, and this needs ${bytes} more.`,
    limit_bytes: limit,
    needed_bytes: bytes,
    retry_after: Math.ceil(msUntilNextUtcDay(at.getTime()) / 1_000),
  })

/** What this node has reserved for an agent and not used. */
interface ByteLease {
  readonly day: string
  left: number
}

/** Counts what free requests of an agent keep in the database (decision 391). */
export interface DailyByteCounter {
  /**
   * Takes bytes of the agent's day, `kind` says of which part: what an owner needs to manage a busy agent has a
   * reserve. Rejects with `daily_bytes_exceeded` (429). Without a promise while this node has reserved enough.
   */
  take(agentId: string, bytes: number, kind?: 'managing'): Promise<void> | undefined
  /** Returns bytes that were not kept after all. */
  giveBack(agentId: string, bytes: number, kind?: 'managing'): void
}

const MAX_LEASES = 10_000

/** Reserves `LIMITS.storedBytesLease` at a time, so that most requests ask nobody: exact over any number of nodes. */
export function createDailyByteCounter(sql: Sql, clock: Pick<Clock, 'now'>): DailyByteCounter {
  const leases = new Map<string, ByteLease>()

  const leaseOf = (name: string): ByteLease => {
    const day = utcDay(clock.now())
    const known = leases.get(name)
    if (known?.day === day) return known
    if (leases.size >= MAX_LEASES) leases.clear()
    const made = { day, left: 0 }
    leases.set(name, made)
    return made
  }

  async function reserve(agentId: string, bytes: number, lease: ByteLease, limit: number) {
    for (const wanted of [Math.max(bytes, LIMITS.storedBytesLease), bytes]) {
      if (!(await addDailyBytes(sql, { agentId, bytes: wanted, limit }))) continue
      lease.left += wanted - bytes
      return
    }
    throw bytesExceeded(limit, bytes, new Date(clock.now()))
  }

  return {
    take(agentId, bytes, kind) {
      const lease = leaseOf(`${agentId} ${kind ?? ''}`)
      if (lease.left < bytes) {
        const reserved = kind === 'managing' ? LIMITS.storedBytesReserve : 0
        return reserve(agentId, bytes, lease, LIMITS.storedBytesPerDay + reserved)
      }
      lease.left -= bytes
      return undefined
    },
    giveBack(agentId, bytes, kind) {
      leaseOf(`${agentId} ${kind ?? ''}`).left += bytes
    },
  }
}
