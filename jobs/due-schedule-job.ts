import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { ScheduleRunner } from '../calls/schedule-runner.ts'
import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { DueScheduleRun, ScheduleStore } from '../persistence/schedules/schedule-store.ts'
import type { DueWorkJobHint, JobQueues } from './queues/distributed-job-queue-service.ts'
import type { JobHandler } from './queues/queue-workers.ts'
import { createPerAgentScheduleRunLimiter } from './per-agent-schedule-run-limiter.ts'

/** Distributes due slots of schedules over the nodes. */

export interface DueScheduleJobDeps {
  readonly clock: Clock
  readonly store: Pick<ScheduleStore, 'look' | 'claim'>
  readonly jobs: Pick<JobQueues, 'hintMany' | 'work'>
  readonly runner: ScheduleRunner
  readonly log: (message: string, error: unknown) => void
}

const SCHEDULES_QUEUE = 'schedules'
const HINT_BATCH_SIZE = 500
/** Concurrent runs on this node, and of one agent among them. */
const MAX_RUNS_PER_NODE = 64
const MAX_RUNS_PER_AGENT = 8
/** Further due slots wait for the next scan. */
const MAX_DUE_SLOTS = 10_000
/** Minimum time between scans, so that close slots share one. */
const MIN_SCAN_GAP_MS = 250
/** A slot that is still due after this time gets another hint. */
const HINT_LIFETIME_MS = LIMITS.timerSweepMs

/**
 * Queues a hint for each due slot, so that one node runs it. Timers and the database clock define
 * what is due. Every node scans at the next slot and every 30 s. A slot gets one hint until that
 * must be lost; hints of several nodes share an id.
 */
export function createDueScheduleJob({ clock, store, jobs, runner, log }: DueScheduleJobDeps) {
  const hints = createHintTracker(clock)
  let alarm: NodeJS.Timeout | undefined
  /** The earliest time of the next scan. */
  let nextScanAt = Infinity
  let scannedAt = -Infinity
  let scanning: Promise<void> | null = null
  let stopped = false

  const withinShare = createPerAgentScheduleRunLimiter(MAX_RUNS_PER_AGENT, (due) =>
    jobs.hintMany(SCHEDULES_QUEUE, [toRepeatedJobHint(due)]),
  )
  const work: JobHandler = async (data, signal) => {
    const due = data as unknown as DueScheduleRun
    setMaxListeners(0, signal) // all runs listen to the shutdown signal of this node
    await withinShare(due, async () => {
      const claim = await store.claim(due)
      if (claim !== null) await runner.run({ ...due, ...claim }, signal)
    })
  }
  jobs.work(SCHEDULES_QUEUE, work, { concurrency: MAX_RUNS_PER_NODE })

  function wakeAt(dueAt: number): void {
    if (dueAt >= nextScanAt) return
    nextScanAt = dueAt
    // A running scan may have read before this slot was stored, so another one follows.
    if (scanning === null) arm()
  }

  function arm(): void {
    clearTimeout(alarm)
    if (stopped) return
    const rest = MIN_SCAN_GAP_MS - (clock.mono() - scannedAt)
    // One millisecond later: before its time a slot is not due, which would cost another scan.
    const wait = Math.ceil(Math.max(nextScanAt - clock.now(), rest, 0)) + 1
    alarm = setTimeout(() => void look(), Math.min(wait, LIMITS.timerSweepMs))
    alarm.unref()
  }

  function look(): Promise<void> {
    scanning ??= hintAll()
      .catch((error: unknown) => {
        log('schedules not looked at', error)
        return Infinity
      })
      .then((nextIn) => {
        scanning = null
        scannedAt = clock.mono()
        nextScanAt = Math.min(nextScanAt, clock.now() + Math.min(nextIn, LIMITS.timerSweepMs))
        arm()
      })
    return scanning
  }

  /** Queues hints for new due slots. Returns milliseconds until the next scan. */
  async function hintAll(): Promise<number> {
    nextScanAt = Infinity
    const { due, nextInMs } = await store.look(MAX_DUE_SLOTS)
    const fresh = hints.fresh(due)
    for (let at = 0; at < fresh.length; at += HINT_BATCH_SIZE)
      jobs.hintMany(SCHEDULES_QUEUE, fresh.slice(at, at + HINT_BATCH_SIZE))
    return Math.min(nextInMs ?? Infinity, hints.lostIn())
  }

  return {
    wakeAt,
    look,
    start: () => void look(),
    async stop(): Promise<void> {
      stopped = true
      clearTimeout(alarm)
      await scanning
    },
  }
}

const toJobHint = (due: DueScheduleRun): DueWorkJobHint => ({
  id: `schedule-${due.scheduleId}-${due.slot}`,
  data: { ...due },
})

/**
 * A hint of a slot that was set aside. The queue takes an id once, and may not have removed the job that
 * set the slot aside: its id would be ignored, and the slot would wait until its hint counts as lost.
 */
const toRepeatedJobHint = (due: DueScheduleRun): DueWorkJobHint => {
  const { id, data } = toJobHint(due)
  return { id: `${id}-${randomUUID()}`, data }
}

/** Tracks recent hints of slots that are still due. */
function createHintTracker(clock: Clock) {
  let given = new Map<string, number>()

  return {
    fresh(due: readonly DueScheduleRun[]): DueWorkJobHint[] {
      const now = clock.mono()
      const [kept, fresh] = [new Map<string, number>(), [] as DueWorkJobHint[]]
      for (const one of due) {
        const hint = toJobHint(one)
        const before = given.get(hint.id)
        const isLost = before === undefined || now - before >= HINT_LIFETIME_MS
        if (isLost) fresh.push(hint)
        kept.set(hint.id, isLost ? now : before)
      }
      given = kept
      return fresh
    },

    /** Milliseconds until the oldest hint counts as lost. */
    lostIn(): number {
      let oldest = Infinity
      for (const at of given.values()) oldest = Math.min(oldest, at)
      return oldest + HINT_LIFETIME_MS - clock.mono()
    },
  }
}
