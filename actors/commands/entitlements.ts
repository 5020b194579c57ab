import type { LifetimeFreeCalls, EntitlementChange } from '../../core/commit-rows.ts'
import type { Command, CommandContext } from '../command.ts'

/** Uses one of the agent's free calls for life up, and tells how many are left; refuses when none is. */
export function consumeLifetimeAllowance(
  ctx: CommandContext,
  { name, most }: LifetimeFreeCalls,
): number {
  const { used } = sendToEntitlements(ctx, { type: 'USE', name, most })
  return most - (used[name] ?? 0)
}

/** Owns something, or puts memories in order, in the commit it is asked for in. */
export function updateEntitlements(ctx: CommandContext, change: EntitlementChange): void {
  sendToEntitlements(ctx, change)
}

/** How many free calls for life the agent has left. */
export const getRemainingAllowanceCommand: Command<LifetimeFreeCalls, number> = {
  name: 'allowance.left',
  kind: 'agent',
  apply(ctx, { name, most }) {
    if (!ctx.has('tally', ctx.aggregateId)) return most
    const { used } = ctx.snapshotOf('tally', ctx.aggregateId).context
    return Math.max(0, most - (used[name] ?? 0))
  },
}

function sendToEntitlements(
  ctx: CommandContext,
  event: EntitlementChange | ({ readonly type: 'USE' } & LifetimeFreeCalls),
) {
  const agentId = ctx.aggregateId
  if (!ctx.has('tally', agentId)) ctx.create('tally', agentId, { agentId })
  return ctx.send('tally', agentId, event).context
}
