import { createActorRuntime, type ActorRuntime } from '../../../actors/actor-runtime.ts'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { isDatabaseUnavailableError } from '../../../http/detect-database-unavailable-error.ts'
import { applyAggregateInboxMessage } from '../../../payments/aggregate-inbox-message-handler.ts'
import { createAggregateStore } from '../../../persistence/aggregate-store.ts'
import { createCallLogStore } from '../../../persistence/calls/call-log-store.ts'
import { commitBatch } from '../../../persistence/commit-batch.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createDatabaseTimeSync } from '../../database-time-sync.ts'

/**
 * Runs a function with a temporary actor runtime, which takes part in version checks like any node.
 */
export async function withCliActorRuntime<T>(
  sql: Sql,
  work: (actors: ActorRuntime) => Promise<T>,
): Promise<T> {
  const [clock, store] = [createDatabaseAdjustedClock(), createAggregateStore(sql)]
  await createDatabaseTimeSync(clock, store).syncInitially()
  const actors = createActorRuntime({
    clock,
    store,
    callLog: createCallLogStore(sql),
    cache: null,
    commit: (changes, assertions) => commitBatch(sql, changes, assertions),
    isOutage: isDatabaseUnavailableError,
    absorb: applyAggregateInboxMessage,
    log: (message, error) => console.error(`${message}: ${String(error)}`),
  })
  try {
    return await work(actors)
  } finally {
    await actors.close()
  }
}
