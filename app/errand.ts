import { runtime, type Runtime } from '../actors/runtime.ts'
import { systemClock } from '../core/clock.ts'
import { isDatabaseLost } from '../http/database-lost.ts'
import { absorb } from '../payments/absorb.ts'
import { aggregateStore } from '../persistence/aggregates.ts'
import { callLog } from '../persistence/call-log.ts'
import { commitBatch } from '../persistence/commit.ts'
import type { Sql } from '../persistence/plane.ts'
import { measuredClock } from './measured-clock.ts'

/** A node for one errand: it takes part in the versions like any other. */
export async function asNode<T>(sql: Sql, errand: (actors: Runtime) => Promise<T>): Promise<T> {
  const [clock, store] = [systemClock(), aggregateStore(sql)]
  await measuredClock(clock, store).first()
  const actors = runtime({
    clock,
    store,
    callLog: callLog(sql),
    cache: null,
    commit: (changes, assertions) => commitBatch(sql, changes, assertions),
    isOutage: isDatabaseLost,
    absorb,
    log: (message, error) => console.error(`${message}: ${String(error)}`),
  })
  try {
    return await errand(actors)
  } finally {
    await actors.close()
  }
}
