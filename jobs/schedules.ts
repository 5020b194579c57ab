import { setMaxListeners } from 'node:events'
import type { ScheduleRunner } from '../calls/schedule-run.ts'
import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { DueRun, ScheduleStore } from '../persistence/schedules.ts'
import type { Hint, Jobs } from './jobs.ts'
import type { Handler } from './lines.ts'
import { agentShares } from './schedules-share.ts'

export interface ScheduleJobParts {
  readonly clock: Clock
  readonly store: Pick<ScheduleStore, 'look' | 'claim'>
  readonly jobs: Pick<Jobs, 'hintMany' | 'work'>
  readonly runner: ScheduleRunner
  readonly log: (message: string, error: unknown) => void
}

const QUEUE = 'schedules'
const BATCH = 500
/** Runs at a time on this node, and of them those of one agent: its slow tools keep nobody waiting. */
const RUNS = 64
const SHARE = 8
/** Above this the rest waits for the next look: what is due stays due. */
const MOST = 10_000
/** Between two looks: many slots that lie close together are one look. */
const PAUSE_MS = 250
/** A slot that is due for so long after its hint is hinted at again. */
const HINT_LASTS_MS = LIMITS.timerSweepMs

/**
 * Hands each slot that is due to the queue, so that one node runs it. The timers are the truth and
 * the database's clock decides; every node has an alarm for the next slot and looks each 30 s. It
 * hints at a slot once, and again when that hint must have been lost; what several nodes say has one
 * id in the queue.
 */
export function scheduleJob({ clock, store, jobs, runner, log }: ScheduleJobParts) {
  const hints = onceEach(clock)
  let alarm: NodeJS.Timeout | undefined
  /** The earliest instant at which a look is wanted. */
  let wanted = Infinity
  let lookedAt = -Infinity
  let looking: Promise<void> | null = null
  let stopped = false

  const withinShare = agentShares(SHARE, (due) => jobs.hintMany(QUEUE, [hintOf(due)]))
  const work: Handler = async (data, signal) => {
    const due = data as unknown as DueRun
    setMaxListeners(0, signal) // the one end of this node, heard by every run
    await withinShare(due, async () => {
      const claim = await store.claim(due)
      if (claim !== null) await runner.run({ ...due, ...claim }, signal)
    })
  }
  jobs.work(QUEUE, work, { concurrency: RUNS })

  function wakeAt(dueAt: number): void {
    if (dueAt >= wanted) return
    wanted = dueAt
    // A look that is under way may have read before this slot was stored: it is followed by another.
    if (looking === null) arm()
  }

  function arm(): void {
    clearTimeout(alarm)
    if (stopped) return
    const rest = PAUSE_MS - (clock.mono() - lookedAt)
    // A millisecond more: before its instant a slot is not due, and would cost another pause.
    const wait = Math.ceil(Math.max(wanted - clock.now(), rest, 0)) + 1
    alarm = setTimeout(() => void look(), Math.min(wait, LIMITS.timerSweepMs))
    alarm.unref()
  }

  function look(): Promise<void> {
    looking ??= hintAll()
      .catch((error: unknown) => {
        log('schedules not looked at', error)
        return Infinity
      })
      .then((nextIn) => {
        looking = null
        lookedAt = clock.mono()
        wanted = Math.min(wanted, clock.now() + Math.min(nextIn, LIMITS.timerSweepMs))
        arm()
      })
    return looking
  }

  /** Hints at every slot that is due and was not hinted at, and tells how soon to look again. */
  async function hintAll(): Promise<number> {
    wanted = Infinity
    const { due, nextIn } = await store.look(MOST)
    const fresh = hints.fresh(due)
    for (let at = 0; at < fresh.length; at += BATCH)
      jobs.hintMany(QUEUE, fresh.slice(at, at + BATCH))
    return Math.min(nextIn ?? Infinity, hints.lostIn())
  }

  return {
    wakeAt,
    look,
    start: () => void look(),
    async stop(): Promise<void> {
      stopped = true
      clearTimeout(alarm)
      await looking
    },
  }
}

const hintOf = (due: DueRun): Hint => ({
  id: `schedule-${due.scheduleId}-${due.slot}`,
  data: { ...due },
})

/** The hints that were given not long ago, of slots that are due still. */
function onceEach(clock: Clock) {
  let given = new Map<string, number>()

  return {
    fresh(due: readonly DueRun[]): Hint[] {
      const now = clock.mono()
      const [kept, fresh] = [new Map<string, number>(), [] as Hint[]]
      for (const one of due) {
        const hint = hintOf(one)
        const before = given.get(hint.id)
        const isLost = before === undefined || now - before >= HINT_LASTS_MS
        if (isLost) fresh.push(hint)
        kept.set(hint.id, isLost ? now : before)
      }
      given = kept
      return fresh
    },

    /** How soon the oldest of them must have been lost. */
    lostIn(): number {
      let oldest = Infinity
      for (const at of given.values()) oldest = Math.min(oldest, at)
      return oldest + HINT_LASTS_MS - clock.mono()
    },
  }
}
