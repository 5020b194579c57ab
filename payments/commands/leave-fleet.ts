import type { Command } from '../../actors/command.ts'
import { toFleetLeaveRow } from '../../persistence/fleets/fleet-store.ts'

/** Which fleet an agent leaves. */
export interface LeaveFleetInput {
  /** Null for the one it is in. */
  readonly fleetId: string | null
  /** The owner that removes it; null where the agent leaves by itself. */
  readonly removedBy: string | null
}

/**
 * Ends the membership of an agent, in the agent's own commit: from here on its calls ask no pool. It can
 * join another fleet only after this commit, so what its fleets tell it arrives in the right order by
 * any clock. No money moves: what the pool has lent for calls under way stays with them, and what they
 * do not use goes back there. Rejects with `not_in_fleet`.
 */
export const leaveFleetCommand: Command<LeaveFleetInput, { fleetId: string }> = {
  name: 'fleet.leave',
  kind: 'agent',
  apply(ctx, { fleetId: asked, removedBy }) {
    const agentId = ctx.aggregateId
    const present = ctx.snapshotOf('agent', agentId).context.fleetId
    ctx.send('agent', agentId, { type: 'LEAVE_FLEET', fleetId: asked ?? present })
    // The chart has refused where it was in no fleet.
    const fleetId = present as string
    ctx.row('fleet_leaves', toFleetLeaveRow(agentId, fleetId, removedBy, ctx.now))
    ctx.inbox({
      receiver: fleetId,
      receiverKind: 'fleet',
      id: `leave:${ctx.newId()}`,
      event: { type: 'LEAVE', agentId },
    })
    return { fleetId }
  },
  note: ({ fleetId, removedBy }) => ({ fleetId, removedBy }),
}
