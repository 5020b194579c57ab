import type { ActorSystem } from '../actors/command.ts'
import { resumeScheduleWithPoolCommand } from '../actors/commands/schedules.ts'
import { SECOND } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { AggregateChanges } from '../persistence/commit-batch.ts'
import type { PayableSchedule, ScheduleStore } from '../persistence/schedules/schedule-store.ts'
import { createPollingLoop } from './polling-loop.ts'

export interface UnderfundedScheduleJobDeps {
  readonly store: Pick<ScheduleStore, 'payable' | 'forgetShort'>
  readonly actors: ActorSystem
  readonly log: (message: string, error: unknown) => void
}

/** Agents that are asked at once. */
const BATCH = 100

/**
 * Lets schedules go on that had stopped because neither their agent nor the pool of its fleet had
 * credits (decision 37). What the pools hold says which: each node looks each 30 s, and soon after a
 * pool was filled. Every schedule goes on in a commit of its own agent.
 */
export function createUnderfundedScheduleJob({ store, actors, log }: UnderfundedScheduleJobDeps) {
  const { start, wake, stop } = createPollingLoop({
    async work(stopping) {
      await store.forgetShort()
      let after: string | null = null
      for (let full = true; full && !stopping();) {
        const found: PayableSchedule[] = await store.payable(after, BATCH)
        await Promise.all(found.map(goOn))
        after = found.at(-1)?.scheduleId ?? null
        full = found.length === BATCH
      }
    },
    everyMs: LIMITS.timerSweepMs,
    wakeDelayMs: SECOND,
    log: (error) => error !== null && log('paused schedules not looked at', error),
  })

  async function goOn({ agentId, scheduleId, pool }: PayableSchedule): Promise<void> {
    const touch = [{ kind: 'schedule', id: scheduleId }] as const
    await actors
      .ask(agentId, resumeScheduleWithPoolCommand, { scheduleId, pool }, { touch })
      .catch((error: unknown) => log(`schedule ${scheduleId} does not go on`, error))
  }

  return {
    start,
    stop,
    /** A commit of this node: it may have filled a pool. */
    committed(changes: readonly Pick<AggregateChanges, 'kind' | 'transfers'>[]): void {
      if (changes.some(({ kind, transfers }) => kind === 'fleet' && transfers.some(isTopUp))) wake()
    },
  }
}

const isTopUp = ({ kind }: { kind: string }): boolean => kind === 'topup'
