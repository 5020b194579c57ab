import type { ActorSystem } from '../actors/aggregate-command-types.ts'
import { resumeScheduleWithFleetPoolCommand } from '../actors/commands/schedule-aggregate-commands.ts'
import { SECOND } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { AggregateChanges } from '../persistence/commit-batch.ts'
import type {
  ScheduleResumableByFleetPool,
  ScheduleStore,
} from '../persistence/schedules/schedule-store.ts'
import { createPollingLoop } from './polling-loop.ts'

/** Resumes schedules when a fleet pool can pay for them. */

export interface ResumeUnderfundedSchedulesJobDeps {
  readonly store: Pick<ScheduleStore, 'payable' | 'forgetShort'>
  readonly actors: ActorSystem
  readonly log: (message: string, error: unknown) => void
}

/** Schedules per query. */
const BATCH = 100

/**
 * Resumes schedules that lacked credits of their agent and its fleet pool (decision 37). Each node
 * checks every 30 s and soon after a top-up. Each schedule resumes in a commit of its agent.
 */
export function createResumeUnderfundedSchedulesJob({
  store,
  actors,
  log,
}: ResumeUnderfundedSchedulesJobDeps) {
  const { start, wake, stop } = createPollingLoop({
    async work(stopping) {
      await store.forgetShort()
      let after: string | null = null
      for (let full = true; full && !stopping();) {
        const found: ScheduleResumableByFleetPool[] = await store.payable(after, BATCH)
        await Promise.all(found.map(resume))
        after = found.at(-1)?.scheduleId ?? null
        full = found.length === BATCH
      }
    },
    everyMs: LIMITS.timerSweepMs,
    wakeDelayMs: SECOND,
    log: (error) => error !== null && log('paused schedules not looked at', error),
  })

  async function resume({
    agentId,
    scheduleId,
    pool,
  }: ScheduleResumableByFleetPool): Promise<void> {
    const touch = [{ kind: 'schedule', id: scheduleId }] as const
    await actors
      .ask(agentId, resumeScheduleWithFleetPoolCommand, { scheduleId, pool }, { touch })
      .catch((error: unknown) => log(`schedule ${scheduleId} does not go on`, error))
  }

  return {
    start,
    stop,
    /** Called after a commit of this node, which may have filled a pool. */
    committed(changes: readonly Pick<AggregateChanges, 'kind' | 'transfers'>[]): void {
      if (changes.some(({ kind, transfers }) => kind === 'fleet' && transfers.some(isTopUp))) wake()
    },
  }
}

const isTopUp = ({ kind }: { kind: string }): boolean => kind === 'topup'
