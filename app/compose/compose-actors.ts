import { createActorRuntime, type ActorRuntime } from '../../actors/actor-runtime.ts'
import type { CommandRecorder } from '../../actors/inspection/command-recorder.ts'
import { createTimerRunner, type TimerRunnerDeps } from '../../actors/timer-runner.ts'
import type { Clock } from '../../core/clock.ts'
import { isDatabaseUnavailableError } from '../../http/detect-database-unavailable-error.ts'
import { applyAggregateInboxMessage } from '../../payments/aggregate-inbox-message-handler.ts'
import { expireBountyCommand } from '../../payments/commands/bounty-commands.ts'
import { expireTaskPassCommand } from '../../payments/commands/task-pass-commands.ts'
import { expireCallHoldCommand } from '../../payments/commands/call-commands.ts'
import { expirePaymentClaimCommand } from '../../payments/commands/payment-claim-commands.ts'
import {
  commitBatch,
  type AggregateChanges,
  type CommitBatchResult,
} from '../../persistence/commit-batch.ts'
import { isConcurrentCommitConflict } from '../../persistence/fleets/fleet-store.ts'
import type { StationPostgresAndRedis } from '../../persistence/start-postgres-and-redis.ts'
import { withUnansweredCommitTimeout } from '../../persistence/query-timeout.ts'
import { createDatabaseTimeSync, type DatabaseTimeSync } from '../database-time-sync.ts'
import type { StationStores } from './compose-stores.ts'
import type { Config } from '../config.ts'

/** Composes the actor runtime and its timers. */

export interface ComposeActorsDeps {
  readonly config: Pick<Config, 'residentAgents'>
  readonly clock: Clock
  readonly plane: Pick<StationPostgresAndRedis, 'commitSql' | 'redis' | 'cache' | 'storage'>
  readonly stores: StationStores
  /** Called after every commit of this node, in order. */
  readonly listeners: readonly {
    committed(changes: readonly AggregateChanges[], outcome: CommitBatchResult): void
  }[]
  /** Timers that other components run, and the dead letters. */
  readonly timers: Pick<TimerRunnerDeps, 'elsewhere' | 'bury'>
  /** Called after a commit that set timers, with the earliest due time. */
  readonly onTimer: (dueAt: number) => void
  /** Told of every command while somebody watches; null without an inspector. */
  readonly recorder: CommandRecorder | null
  readonly log: (message: string, error: unknown) => void
}

/** Creates the actor runtime, the timer runner and the synchronization with the database clock. */
export async function composeActors(parts: ComposeActorsDeps): Promise<{
  actors: ActorRuntime
  alarms: ReturnType<typeof createTimerRunner>
  databaseTime: DatabaseTimeSync
}> {
  const { clock, plane, log } = parts
  const { aggregates: store, served } = parts.stores
  const databaseTime = createDatabaseTimeSync(clock, store)
  await databaseTime.syncInitially()
  const actors = createActorRuntime({
    clock,
    store,
    callLog: served.callLog,
    cache: plane.redis === null ? null : plane.cache,
    async commit(changes, assertions) {
      const committing = withUnansweredCommitTimeout(
        commitBatch(plane.commitSql, changes, assertions),
      )
      committing.catch(plane.storage.failed)
      const outcome = await committing
      for (const listener of parts.listeners) listener.committed(changes, outcome)
      return outcome
    },
    isOutage: isDatabaseUnavailableError,
    log: (message, error) => (isConcurrentCommitConflict(error) ? undefined : log(message, error)),
    absorb: applyAggregateInboxMessage,
    ...(parts.recorder === null ? {} : { recorder: parts.recorder }),
    resident: parts.config.residentAgents,
    onTimer(dueAt) {
      alarms.wakeAt(dueAt)
      parts.onTimer(dueAt)
    },
  })
  const alarms = createTimerRunner({
    clock,
    actors,
    store,
    commands: [
      expireCallHoldCommand,
      expirePaymentClaimCommand,
      expireBountyCommand,
      expireTaskPassCommand,
    ],
    log,
    ...parts.timers,
  })
  return { actors, alarms, databaseTime }
}
