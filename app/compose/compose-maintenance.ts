import { HOUR, MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { createRetentionSweeper } from '../../persistence/retention-sweeper.ts'
import type { StationStores } from './compose-stores.ts'
import type { DatabaseTimeSync } from '../database-time-sync.ts'

/** Periodic maintenance of a node. */

interface ExpiredRowSweeper {
  sweep(now: Date): Promise<void>
}

interface ExpiredDataRemover {
  forget(): Promise<void>
}

export interface ComposeMaintenanceDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly stores: StationStores
  readonly databaseTime: DatabaseTimeSync
  readonly pages: ExpiredRowSweeper
  readonly streams: ExpiredRowSweeper
  readonly funds: ExpiredDataRemover
  readonly queue: ExpiredDataRemover
  readonly log: (message: string, error: unknown) => void
}

/** Starts the tasks that run every second, minute and hour. */
export function composeMaintenance(parts: ComposeMaintenanceDeps): { stop(): void } {
  const { sql, clock, databaseTime, log } = parts
  const { aggregates, served } = parts.stores
  const failing = (message: string) => (error: unknown) => log(message, error)
  const { sweep } = createRetentionSweeper(sql)
  const minutely = setInterval(() => {
    databaseTime.sync().catch(failing('clock not measured'))
    aggregates.ensurePartitions().catch(failing('partitions not made'))
    const now = new Date(clock.now())
    parts.pages.sweep(now).catch(failing('deliveries not swept'))
    parts.streams.sweep(now).catch(failing('signals not swept'))
    parts.funds.forget().catch(failing('wallets not forgotten'))
    served.messages.sweep(now).catch(failing('messages not swept'))
    served.callLog.forgetAnswers().catch(failing('answers not swept'))
    served.clipboard.sweep(now).catch(failing('clipboards not swept'))
    served.ownerSessions.sweep().catch(failing('sessions of owners not swept'))
    // Without readers nobody else posts milestones.
    served.statistics.rollUp().catch(failing('figures not summed'))
    parts.queue.forget().catch(failing('results not swept'))
  }, MINUTE)
  minutely.unref()
  // After a sleep the clock is behind; waiting a minute would be too long.
  const eachSecond = setInterval(() => {
    databaseTime.syncIfNeeded().catch(failing('clock not measured'))
  }, SECOND)
  eachSecond.unref()
  const hourly = setInterval(() => {
    sweep().catch(failing('old rows not swept'))
  }, HOUR)
  hourly.unref()
  return {
    stop() {
      clearInterval(minutely)
      clearInterval(eachSecond)
      clearInterval(hourly)
    },
  }
}
