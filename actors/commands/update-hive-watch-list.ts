import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { HiveWatchListChange } from '../../core/aggregate-commit-row-types.ts'
import type { CommandContext } from '../aggregate-command-types.ts'

/** Adds or removes a Hive watch of the agent. Throws `limit_reached` above `LIMITS.hiveWatches`. */
export function updateHiveWatchList(
  ctx: CommandContext,
  { watchId, type }: HiveWatchListChange,
): void {
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
