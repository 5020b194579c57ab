import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { WatchListChange } from '../../core/commit-rows.ts'
import type { CommandContext } from '../command.ts'

/** Begins or ends a watch of the agent, in the commit it is asked for in; refuses one too many. */
export function updateHiveWatchList(ctx: CommandContext, { watchId, type }: WatchListChange): void {
  const agentId = ctx.aggregateId
  if (!ctx.has('watchList', agentId))
    ctx.create('watchList', agentId, { agentId, most: LIMITS.hiveWatches })
  try {
    ctx.send('watchList', agentId, { type, watchId })
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'limit_reached')
      Object.assign(error.details, { limit: LIMITS.hiveWatches, of: 'watches' })
    throw error
  }
}
