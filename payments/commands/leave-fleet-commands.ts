import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import { toFleetLeaveRow } from '../../persistence/fleets/fleet-store.ts'

/** The fleet an agent leaves. */
export interface LeaveFleetInput {
  /** Null for its current fleet. */
  readonly fleetId: string | null
  /** The owner that removes it; null if the agent leaves by itself. */
  readonly removedBy: string | null
}

/**
 * Ends an agent's membership, in the agent's own commit: its later calls draw on no pool. The agent
 * can join another fleet only after this commit, so messages from its fleets arrive in order. No
 * money moves: loans for running calls stay, and their unused part returns to the pool. Throws
 * `not_in_fleet`.
 */
export const leaveFleetCommand: AggregateCommand<LeaveFleetInput, { fleetId: string }> = {
  name: 'fleet.leave',
  kind: 'agent',
  apply(ctx, { fleetId: asked, removedBy }) {
    const agentId = ctx.aggregateId
    const present = ctx.snapshotOf('agent', agentId).context.fleetId
    ctx.send('agent', agentId, { type: 'LEAVE_FLEET', fleetId: asked ?? present })
    // The machine rejects agents without a fleet.
    const fleetId = present as string
    ctx.row('fleet_departures', toFleetLeaveRow(agentId, fleetId, removedBy, ctx.now))
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
