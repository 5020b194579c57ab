import { setTimeout as pause } from 'node:timers/promises'
import { systemClock } from '../../core/clock.ts'
import { masterKey, sealingKey } from '../../core/crypto.ts'
import { startJobs } from '../../jobs/jobs.ts'
import { targetOf } from '../../persistence/postgres/connect.ts'
import { scheduleStore } from '../../persistence/schedules.ts'
import type { TestDatabase } from './database.ts'

interface Teardown {
  teardown(work: () => unknown): unknown
}

/** It only looks at what is due: no envelope is opened with it. */
const NO_SEALS = sealingKey(masterKey(Buffer.alloc(32).toString('base64')), 'keyring')
const PATIENCE_MS = 60_000
const POLL_MS = 20
const SWEEP_MS = 250

/** Time passes for schedules: their next slots are made due and said to the queue, as a sweep does. */
export function dueSlots(t: Teardown, { settings, sql }: TestDatabase) {
  const target = targetOf(settings.databaseUrl)
  const parts = { target, redis: null, prefix: '', clock: systemClock(), log: () => {} }
  const jobs = startJobs(parts)
  t.teardown(() => jobs.stop())
  const store = scheduleStore(sql, NO_SEALS)

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

    /** Makes the next slot of a schedule due, or of all of them. */
    async pass(scheduleId: string | null = null): Promise<void> {
      await sql`
        update timers set due_at = clock_timestamp()
         where command = 'schedule.run'
           and (${scheduleId}::text is null or id = 'schedule:' || ${scheduleId}::text)`
      await sweep()
    },

    /** Until every slot that is due has ended; what was lost is said again. */
    async settled(): Promise<void> {
      const end = performance.now() + PATIENCE_MS
      while ((await sweep()) > 0) {
        if (performance.now() > end) throw new Error('slots are still due')
        await pause(SWEEP_MS)
      }
    },
  }
}

/** Waits for what must come; a hang is told from slowness by far. */
export async function until(what: string, happened: () => boolean | Promise<boolean>) {
  const end = performance.now() + PATIENCE_MS
  while (!(await happened())) {
    if (performance.now() > end) throw new Error(`it never came: ${what}`)
    await pause(POLL_MS)
  }
}
