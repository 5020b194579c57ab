import { runtime, type Runtime } from '../actors/runtime.ts'
import { timers, type TimerParts } from '../actors/timers.ts'
import type { Clock } from '../core/clock.ts'
import { isDatabaseLost } from '../http/database-lost.ts'
import { absorb } from '../payments/absorb.ts'
import { bountyExpire } from '../payments/commands/bounty.ts'
import { holdExpire } from '../payments/commands/call.ts'
import { paymentExpire } from '../payments/commands/payment.ts'
import { commitBatch, type AggregateChanges } from '../persistence/commit.ts'
import type { Plane } from '../persistence/plane.ts'
import { interruptible } from '../persistence/within.ts'
import { measuredClock, type MeasuredClock } from './measured-clock.ts'
import type { Stores } from './compose-stores.ts'
import type { Config } from './config.ts'

export interface ActorParts {
  readonly config: Pick<Config, 'residentAgents'>
  readonly clock: Clock
  readonly plane: Pick<Plane, 'lane' | 'redis' | 'cache' | 'storage'>
  readonly stores: Stores
  /** Told of every commit of this node, one after the other. */
  readonly listeners: readonly { committed(changes: readonly AggregateChanges[]): void }[]
  /** What the timers leave to others. */
  readonly timers: Pick<TimerParts, 'elsewhere' | 'bury'>
  /** Told after a commit that set timers: the instant of the earliest. */
  readonly onTimer: (dueAt: number) => void
  readonly log: (message: string, error: unknown) => void
}

/** The actors of this node, by the database's time, with the alarms for what comes due. */
export async function composeActors(parts: ActorParts): Promise<{
  actors: Runtime
  alarms: ReturnType<typeof timers>
  databaseTime: MeasuredClock
}> {
  const { clock, plane, log } = parts
  const { aggregates: store, served } = parts.stores
  const databaseTime = measuredClock(clock, store)
  await databaseTime.first()
  const actors = runtime({
    clock,
    store,
    callLog: served.callLog,
    cache: plane.redis === null ? null : plane.cache,
    async commit(changes, assertions) {
      const committing = interruptible(commitBatch(plane.lane, changes, assertions))
      committing.catch(plane.storage.failed)
      const outcome = await committing
      for (const listener of parts.listeners) listener.committed(changes)
      return outcome
    },
    isOutage: isDatabaseLost,
    log,
    absorb,
    resident: parts.config.residentAgents,
    onTimer(dueAt) {
      alarms.wakeAt(dueAt)
      parts.onTimer(dueAt)
    },
  })
  const alarms = timers({
    clock,
    actors,
    store,
    commands: [holdExpire, paymentExpire, bountyExpire],
    log,
    ...parts.timers,
  })
  return { actors, alarms, databaseTime }
}
