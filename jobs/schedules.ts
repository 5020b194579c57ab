import type { ScheduleRunner } from '../calls/schedule-run.ts'
import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { DueRun, ScheduleStore } from '../persistence/schedules.ts'
import type { Jobs } from './jobs.ts'

export interface ScheduleJobParts {
  readonly clock: Clock
  readonly store: Pick<ScheduleStore, 'dueRuns' | 'nextIn' | 'claim'>
  readonly jobs: Pick<Jobs, 'hintMany' | 'work'>
  readonly runner: ScheduleRunner
  readonly log: (message: string, error: unknown) => void
}

const QUEUE = 'schedules'
const BATCH = 500
/** Above this the rest waits for the next round: what is due stays due. */
const MOST = 10_000

/**
 * Hands each slot that is due to the queue, so that one node runs it. The timers are the truth and
 * the database's clock decides; every node has an alarm for the next slot and looks each 30 s, and
 * what both say twice has one id in the queue.
 */
export function scheduleJob({ clock, store, jobs, runner, log }: ScheduleJobParts) {
  let alarm: NodeJS.Timeout | null = null
  let alarmAt = Infinity
  let looking: Promise<void> | null = null
  let stopped = false

  jobs.work(QUEUE, async (data, signal) => {
    const due = data as unknown as DueRun
    const claim = await store.claim(due)
    if (claim !== null) await runner.run({ ...due, ...claim }, signal)
  })

  function wakeAt(dueAt: number): void {
    if (stopped || dueAt >= alarmAt) return
    if (alarm !== null) clearTimeout(alarm)
    alarmAt = dueAt
    const wait = Math.min(Math.max(1, dueAt - clock.now()), LIMITS.timerSweepMs)
    alarm = setTimeout(() => {
      alarmAt = Infinity
      void look()
    }, wait)
    alarm.unref()
  }

  function look(): Promise<void> {
    looking ??= hintAll()
      .catch((error: unknown) => {
        log('schedules not looked at', error)
        return null
      })
      .then((nextIn) => {
        looking = null
        wakeAt(clock.now() + Math.min(nextIn ?? Infinity, LIMITS.timerSweepMs))
      })
    return looking
  }

  /** Hints at every slot that is due, and tells how soon the next one is. */
  async function hintAll(): Promise<number | null> {
    for (let seen = 0; seen < MOST; seen += BATCH) {
      const due = await store.dueRuns(BATCH, seen)
      jobs.hintMany(
        QUEUE,
        due.map((one) => ({ id: `schedule-${one.scheduleId}-${one.slot}`, data: { ...one } })),
      )
      if (due.length < BATCH) break
    }
    return store.nextIn()
  }

  return {
    wakeAt,
    look,
    start: () => void look(),
    async stop(): Promise<void> {
      stopped = true
      if (alarm !== null) clearTimeout(alarm)
      await looking
    },
  }
}
