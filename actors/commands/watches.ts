import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { WatchChange } from '../../core/rows.ts'
import type { Turn } from '../command.ts'

/** Begins or ends a watch of the agent, in the commit it is asked for in; refuses one too many. */
export function changeWatches(turn: Turn, { watchId, type }: WatchChange): void {
  const agentId = turn.aggregateId
  if (!turn.has('watchList', agentId))
    turn.create('watchList', agentId, { agentId, most: LIMITS.hiveWatches })
  try {
    turn.step('watchList', agentId, { type, watchId })
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'limit_reached')
      Object.assign(error.details, { limit: LIMITS.hiveWatches, of: 'watches' })
    throw error
  }
}
