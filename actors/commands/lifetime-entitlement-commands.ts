import type {
  LifetimeFreeCalls,
  OwnershipOrMemoryReorganization,
} from '../../core/aggregate-commit-row-types.ts'
import type { AggregateCommand, CommandContext } from '../aggregate-command-types.ts'

/** Uses one of the agent's lifetime free calls. Returns how many are left; rejects when none is. */
export function consumeLifetimeFreeCall(
  ctx: CommandContext,
  { name, most: limit }: LifetimeFreeCalls,
): number {
  const { used } = sendToEntitlements(ctx, { type: 'USE', name, most: limit })
  return limit - (used[name] ?? 0)
}

/** Records an ownership or a memory reorganization in the current commit. */
export function recordOwnershipOrMemoryReorganization(
  ctx: CommandContext,
  change: OwnershipOrMemoryReorganization,
): void {
  sendToEntitlements(ctx, change)
}

/** Returns how many lifetime free calls the agent has left. */
export const getLifetimeFreeCallsLeftCommand: AggregateCommand<LifetimeFreeCalls, number> = {
  name: 'allowance.left',
  kind: 'agent',
  apply(ctx, { name, most: limit }) {
    if (!ctx.has('tally', ctx.aggregateId)) return limit
    const { used } = ctx.snapshotOf('tally', ctx.aggregateId).context
    return Math.max(0, limit - (used[name] ?? 0))
  },
}

function sendToEntitlements(
  ctx: CommandContext,
  event: OwnershipOrMemoryReorganization | ({ readonly type: 'USE' } & LifetimeFreeCalls),
) {
  const agentId = ctx.aggregateId
  if (!ctx.has('tally', agentId)) ctx.create('tally', agentId, { agentId })
  return ctx.send('tally', agentId, event).context
}
