import type { ActorSystem } from '../../actors/aggregate-command-types.ts'
import { SCHEDULE_RUN_TIMER } from '../../actors/commands/schedule-aggregate-commands.ts'
import type { CallService } from '../../calls/call-request-and-reply-types.ts'
import { createScheduleRunner } from '../../calls/schedule-runner.ts'
import { DAY, type Clock } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { isDatabaseUnavailableError } from '../../http/detect-database-unavailable-error.ts'
import { startJobQueues } from '../../jobs/queues/distributed-job-queue-service.ts'
import { createDueScheduleJob } from '../../jobs/due-schedule-job.ts'
import { createResumeUnderfundedSchedulesJob } from '../../jobs/resume-fleet-schedules-job.ts'
import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import type { AggregateChanges } from '../../persistence/commit-batch.ts'
import { migrateBullmqSchema } from '../../persistence/bullmq-connections.ts'
import type { ApiKeyStore } from '../../persistence/agents/api-key-store.ts'
import type { StationPostgresAndRedis } from '../../persistence/start-postgres-and-redis.ts'
import { createScheduleStore } from '../../persistence/schedules/schedule-store.ts'
import { createOperatorDeadLetterStore } from '../cli/operator/cli-dead-letters.ts'

/** Composes job queues, schedules and dead letters. */

export interface ComposeJobsDeps {
  readonly plane: StationPostgresAndRedis
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  readonly sealingFor: (purpose: 'keyring') => EncryptionKeys
}

interface StartSchedulesDeps {
  readonly actors: ActorSystem
  readonly calls: Pick<CallService, 'refuel'>
  readonly keys: Pick<ApiKeyStore, 'successorOf'>
}

/** Creates the job queues and the schedule services. */
export async function composeJobs({ plane, clock, log, sealingFor }: ComposeJobsDeps) {
  const { sql, queues } = plane
  if (queues.redis === null) await migrateBullmqSchema(sql)
  const jobs = startJobQueues({ ...queues, clock, log })
  plane.bus.onDeadConnections(jobs.renew)
  const letters = createOperatorDeadLetterStore(sql)
  const store = createScheduleStore(sql, sealingFor('keyring'))
  let short: ReturnType<typeof createResumeUnderfundedSchedulesJob> | null = null
  return {
    letters,
    /** Called after each commit of this node. */
    committed: (changes: readonly AggregateChanges[]) => short?.committed(changes),
    /** Services for the routes. */
    served: { schedules: { filesOf: store.filesOf, seal: store.seal } },
    /** Timers that the timer runner must leave to the queues. */
    timers: { elsewhere: [SCHEDULE_RUN_TIMER], bury: letters.bury },

    /** Creates the schedule jobs; they run after `start`. */
    schedules({ actors, calls, keys }: StartSchedulesDeps) {
      const { successorOf: findKeySuccessor } = keys
      const runner = createScheduleRunner({
        actors,
        calls,
        findKeySuccessor,
        isOutage: isDatabaseUnavailableError,
        log,
      })
      const runs = createDueScheduleJob({ clock, store, jobs, runner, log })
      short = createResumeUnderfundedSchedulesJob({ store, actors, log })
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

    /** Deletes expired results. */
    forget: () => store.forgetResults(new Date(clock.now() - LIMITS.scheduleResultDays * DAY)),
    stop: jobs.stop,
  }
}
