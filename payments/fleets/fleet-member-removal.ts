import type { ActorSystem, AggregateCommandOptions } from '../../actors/aggregate-command-types.ts'
import { ServiceError } from '../../core/errors.ts'
import type { FleetStore } from '../../persistence/fleets/fleet-store.ts'
import { leaveFleetCommand } from '../commands/leave-fleet-commands.ts'

/** Ends fleet memberships, by the member or by the owner (decisions 178 to 180). */

interface FleetMemberRemovalDeps {
  readonly actors: ActorSystem
  readonly store: Pick<FleetStore, 'find' | 'membershipOf' | 'ownedBy'>
}

/** Creates the commands to leave a fleet and to remove a member. */
export function createFleetLeaveAndRemovalCommands({ actors, store }: FleetMemberRemovalDeps) {
  /** The error for a caller that does not own the agent's fleet, or the named fleet. */
  async function notOwned(
    caller: string,
    agentId: string,
    asked: string | null,
    fleetId: string | null,
  ): Promise<ServiceError> {
    const isMember = fleetId !== null && (await store.membershipOf(caller)) === fleetId
    if (isMember) {
      const detail = caller === agentId ? OWNER_ONLY_REMOVAL : undefined
      return new ServiceError('fleet_not_yours', { ...(detail && { detail }), fleet_id: fleetId })
    }
    if (asked !== null) return new ServiceError('fleet_not_found', { fleet_id: asked })
    return notInFleetError(agentId, null, NOT_IN_YOUR_FLEETS)
  }

  return {
    /**
     * Ends the caller's membership; without `fleetId`, in its current fleet. An owner that leaves
     * as a member stays the owner (decision 178). Returns the fleet.
     */
    async leave(
      agentId: string,
      fleetId: string | null,
      options: AggregateCommandOptions,
    ): Promise<{ fleetId: string }> {
      const leaving = { fleetId, removedBy: null }
      return actors
        .ask(agentId, leaveFleetCommand, leaving, options)
        .catch(async (error: unknown) => {
          if (!isNotInFleetError(error)) throw error
          const owns = (await store.ownedBy(agentId)) > 0
          const nothing = fleetId === null ? NOT_IN_A_FLEET : NOT_A_MEMBER_YOURSELF
          throw notInFleetError(
            agentId,
            fleetId,
            owns ? `${nothing} ${OWNER_MEMBERSHIP_HINT}` : nothing,
          )
        })
    },

    /**
     * Ends an agent's membership for the fleet's owner; without `fleetId`, in its current fleet.
     * Rejects with `fleet_not_found` if the caller owns no such fleet, `fleet_not_yours` if the
     * caller is only a member, and `not_in_fleet`, which reveals nothing about other fleets.
     */
    async remove(
      removedBy: string,
      { agentId, fleetId: asked }: { agentId: string; fleetId: string | null },
      options: AggregateCommandOptions,
    ): Promise<{ fleetId: string }> {
      const fleetId = asked ?? (await store.membershipOf(agentId))
      const fleet = fleetId === null ? null : await store.find(fleetId)
      if (fleet?.ownerId !== removedBy) throw await notOwned(removedBy, agentId, asked, fleetId)
      const leaving = { fleetId, removedBy }
      return actors.ask(agentId, leaveFleetCommand, leaving, options).catch((error: unknown) => {
        throw isNotInFleetError(error) ? notInFleetError(agentId, fleetId, NOT_A_MEMBER) : error
      })
    },
  }
}

const NOT_IN_A_FLEET = 'You are in no fleet: there is nothing to leave.'
const NOT_A_MEMBER_YOURSELF = 'You are no member of this fleet: there is nothing to leave.'
const OWNER_MEMBERSHIP_HINT =
  'An owner is a member only after adding itself, and stays the owner of its fleets. To keep others from drawing on a pool of yours, remove them with POST /api/fleet/remove-agent.'
const OWNER_ONLY_REMOVAL =
  'Only its owner may remove agents from a fleet: leave it with POST /api/fleet/leave.'
const NOT_A_MEMBER = 'The agent is no member of this fleet: it has left, or it never joined.'
const NOT_IN_YOUR_FLEETS = 'The agent is in no fleet of yours.'

const isNotInFleetError = (error: unknown): boolean =>
  error instanceof ServiceError && error.code === 'not_in_fleet'

const notInFleetError = (agentId: string, fleetId: string | null, detail: string): ServiceError =>
  new ServiceError('not_in_fleet', {
    detail,
    agent_id: agentId,
    ...(fleetId === null ? {} : { fleet_id: fleetId }),
  })
