import type { Actors, AskOptions } from '../actors/command.ts'
import { ServiceError } from '../core/errors.ts'
import type { FleetStore } from '../persistence/fleets.ts'
import { fleetLeave } from './commands/fleet-leave.ts'

interface LeavingDeps {
  readonly actors: Actors
  readonly store: Pick<FleetStore, 'find' | 'membershipOf' | 'ownedBy'>
}

/** How agents leave fleets: by themselves, or removed by the owner (decisions 178 to 180). */
export function fleetLeaving({ actors, store }: LeavingDeps) {
  /** Why an agent cannot be removed by somebody who does not own its fleet, or the one that was named. */
  async function notOwned(
    caller: string,
    agentId: string,
    asked: string | null,
    fleetId: string | null,
  ): Promise<ServiceError> {
    const isMember = fleetId !== null && (await store.membershipOf(caller)) === fleetId
    if (isMember) {
      const detail = caller === agentId ? LEAVE_INSTEAD : undefined
      return new ServiceError('fleet_not_yours', { ...(detail && { detail }), fleet_id: fleetId })
    }
    if (asked !== null) return new ServiceError('fleet_not_found', { fleet_id: asked })
    return notIn(agentId, null, IN_NONE_OF_YOURS)
  }

  return {
    /**
     * Ends the membership of an agent that asks for it; without `fleetId` in the fleet it is in. An owner
     * that is a member leaves as any other and stays the owner (decision 178). Answers with the fleet.
     */
    async leave(
      agentId: string,
      fleetId: string | null,
      options: AskOptions,
    ): Promise<{ fleetId: string }> {
      const leaving = { fleetId, removedBy: null }
      return actors.ask(agentId, fleetLeave, leaving, options).catch(async (error: unknown) => {
        if (!isNotIn(error)) throw error
        const owns = (await store.ownedBy(agentId)) > 0
        const nothing = fleetId === null ? IN_NONE : NO_MEMBER
        throw notIn(agentId, fleetId, owns ? `${nothing} ${OWNERS}` : nothing)
      })
    },

    /**
     * Ends the membership of an agent for the owner of its fleet; without `fleetId` in the one it is in.
     * Rejects with `fleet_not_found` where the owner's fleet is not there, `fleet_not_yours` where the
     * one who asks is a member of it only, and `not_in_fleet`, which tells nothing of fleets of others.
     */
    async remove(
      removedBy: string,
      { agentId, fleetId: asked }: { agentId: string; fleetId: string | null },
      options: AskOptions,
    ): Promise<{ fleetId: string }> {
      const fleetId = asked ?? (await store.membershipOf(agentId))
      const fleet = fleetId === null ? null : await store.find(fleetId)
      if (fleet?.ownerId !== removedBy) throw await notOwned(removedBy, agentId, asked, fleetId)
      const leaving = { fleetId, removedBy }
      return actors.ask(agentId, fleetLeave, leaving, options).catch((error: unknown) => {
        throw isNotIn(error) ? notIn(agentId, fleetId, NOT_A_MEMBER) : error
      })
    },
  }
}

const IN_NONE = 'You are in no fleet: there is nothing to leave.'
const NO_MEMBER = 'You are no member of this fleet: there is nothing to leave.'
const OWNERS =
  'An owner is a member only after adding itself, and stays the owner of its fleets. To keep others from drawing on a pool of yours, remove them with POST /api/fleet/remove-agent.'
const LEAVE_INSTEAD =
  'Only its owner may remove agents from a fleet: leave it with POST /api/fleet/leave.'
const NOT_A_MEMBER = 'The agent is no member of this fleet: it has left, or it never joined.'
const IN_NONE_OF_YOURS = 'The agent is in no fleet of yours.'

const isNotIn = (error: unknown): boolean =>
  error instanceof ServiceError && error.code === 'not_in_fleet'

const notIn = (agentId: string, fleetId: string | null, detail: string): ServiceError =>
  new ServiceError('not_in_fleet', {
    detail,
    agent_id: agentId,
    ...(fleetId === null ? {} : { fleet_id: fleetId }),
  })
