import type { Actors } from '../actors/command.ts'
import { SCHEDULE_TIMER } from '../actors/commands/schedules.ts'
import type { Calls } from '../calls/calls.ts'
import { scheduleRunner } from '../calls/schedule-run.ts'
import { DAY, type Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import { isDatabaseLost } from '../http/database-lost.ts'
import { startJobs } from '../jobs/jobs.ts'
import { scheduleJob } from '../jobs/schedules.ts'
import { shortSchedules } from '../jobs/schedules-short.ts'
import type { SealingKeys } from '../core/crypto.ts'
import type { AggregateChanges } from '../persistence/commit.ts'
import { migrateJobs } from '../persistence/jobs-backend.ts'
import type { KeyStore } from '../persistence/keys.ts'
import type { Plane } from '../persistence/plane.ts'
import { scheduleStore } from '../persistence/schedules.ts'
import { allLetters } from './dead-letters.ts'

export interface JobsParts {
  readonly plane: Plane
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  readonly sealingFor: (purpose: 'keyring') => SealingKeys
}

interface Scheduling {
  readonly actors: Actors
  readonly calls: Pick<Calls, 'refuel'>
  readonly keys: Pick<KeyStore, 'heirOf'>
}

/** The queue that spreads work over the nodes, and what failed for good. */
export async function composeJobs({ plane, clock, log, sealingFor }: JobsParts) {
  const { sql, queues } = plane
  if (queues.redis === null) await migrateJobs(sql)
  const jobs = startJobs({ ...queues, clock, log })
  plane.bus.onDeadLines(jobs.renew)
  const letters = allLetters(sql)
  const store = scheduleStore(sql, sealingFor('keyring'))
  let short: ReturnType<typeof shortSchedules> | null = null
  return {
    letters,
    /** A commit of this node. */
    committed: (changes: readonly AggregateChanges[]) => short?.committed(changes),
    /** What the routes reach of it. */
    served: { schedules: { filesOf: store.filesOf, seal: store.seal } },
    /** What the timers of the actors leave to others. */
    timers: { elsewhere: [SCHEDULE_TIMER], bury: letters.bury },

    /** Runs schedules from `start` on. */
    schedules({ actors, calls, keys }: Scheduling) {
      const { heirOf } = keys
      const runner = scheduleRunner({ actors, calls, heirOf, isOutage: isDatabaseLost, log })
      const runs = scheduleJob({ clock, store, jobs, runner, log })
      short = shortSchedules({ store, actors, log })
      const { start, stop } = short
      return {
        wakeAt: runs.wakeAt,
        start() {
          runs.start()
          start()
        },
        stop: () => Promise.all([runs.stop(), stop()]),
      }
    },

    /** Takes the results that nobody can see any more. */
    forget: () => store.forgetResults(new Date(clock.now() - LIMITS.scheduleResultDays * DAY)),
    stop: jobs.stop,
  }
}
