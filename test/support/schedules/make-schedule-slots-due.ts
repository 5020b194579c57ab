import { setTimeout as pause } from 'node:timers/promises'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { parseMasterKey, deriveEncryptionKey } from '../../../core/key-derivation-and-encryption.ts'
import { startJobQueues } from '../../../jobs/queues/distributed-job-queue-service.ts'
import { parseDatabaseUrl } from '../../../persistence/postgres/database-url.ts'
import { createScheduleStore } from '../../../persistence/schedules/schedule-store.ts'
import type { TestDatabase } from '../postgres/test-database.ts'

/** Makes schedule slots due and waits for their runs. */

interface Teardown {
  teardown(work: () => unknown): unknown
}

/** Only finds due slots; it opens no envelope. */
const UNUSED_SEALING_KEY = deriveEncryptionKey(
  parseMasterKey(Buffer.alloc(32).toString('base64')),
  'keyring',
)
const DUE_SLOTS_TIMEOUT_MS = 60_000
const POLL_MS = 20
const SWEEP_MS = 250

/** Makes slots due and enqueues them as the sweep does. */
export function createScheduleSlotDriver(t: Teardown, { settings, sql }: TestDatabase) {
  const target = parseDatabaseUrl(settings.databaseUrl)
  const parts = {
    target,
    redis: null,
    prefix: '',
    clock: createDatabaseAdjustedClock(),
    log: () => {},
  }
  const jobs = startJobQueues(parts)
  t.teardown(() => jobs.stop())
  const store = createScheduleStore(sql, UNUSED_SEALING_KEY)

  async function sweep(): Promise<number> {
    const { due } = await store.look(1_000)
    const hints = due.map((one) => ({
      id: `schedule-${one.scheduleId}-${one.slot}`,
      data: { ...one },
    }))
    jobs.hintMany('schedules', hints)
    return due.length
  }

  return {
    sweep,

    /** Makes the next slot of one schedule due, or of all. */
    async pass(scheduleId: string | null = null): Promise<void> {
      await sql`
        update timers set due_at = clock_timestamp()
         where command = 'schedule.run'
           and (${scheduleId}::text is null or id = 'schedule:' || ${scheduleId}::text)`
      await sweep()
    },

    /** Waits until every due slot has ended; enqueues lost ones again. */
    async settled(): Promise<void> {
      const end = performance.now() + DUE_SLOTS_TIMEOUT_MS
      while ((await sweep()) > 0) {
        if (performance.now() > end) throw new Error('slots are still due')
        await pause(SWEEP_MS)
      }
    },
  }
}

/** Polls a condition with a timeout far above any normal duration. */
export async function waitUntilTrue(what: string, happened: () => boolean | Promise<boolean>) {
  const end = performance.now() + DUE_SLOTS_TIMEOUT_MS
  while (!(await happened())) {
    if (performance.now() > end) throw new Error(`it never came: ${what}`)
    await pause(POLL_MS)
  }
}
