import { randomInt } from 'node:crypto'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { communityToolAggregateId } from '../../domain/community-tool-record.ts'
import { lookAlikeToolNameError } from '../../domain/tool-name-look-alikes.ts'
import { isUniqueViolation } from '../../persistence/fleets/fleet-store.ts'
import type { CommunityToolBuilderSlot } from '../../persistence/tools/community-tool-store.ts'
import type { ActorSystem } from '../aggregate-command-types.ts'
import {
  registerCommunityToolCommand,
  type CommunityToolView,
  type RegisterCommunityToolInput,
} from './community-tool-commands.ts'

/**
 * Registers a tool under a free place of its builder and a name that looks like no other, both for registrations at
 * one instant too.
 */

export interface RegisterCommunityToolDeps {
  readonly actors: Pick<ActorSystem, 'ask'>
  readonly store: {
    placesOf(builderId: string): Promise<readonly CommunityToolBuilderSlot[]>
    lookAlikes(slugs: readonly string[]): Promise<readonly string[]>
  }
}

/**
 * Throws `limit_reached` if all places of the builder are taken, and `slug_taken` for a name that looks like that of
 * another tool; the operator's imports take places above the limit.
 * Repeating it with the same tool id changes nothing.
 */
export async function registerCommunityToolWithinBuilderLimit(
  { actors, store }: RegisterCommunityToolDeps,
  tool: Omit<RegisterCommunityToolInput, 'place'>,
  isOperator = false,
): Promise<CommunityToolView> {
  const id = communityToolAggregateId(tool.slug)
  for (;;) {
    const taken = await store.placesOf(tool.builderId)
    const own = taken.find(({ toolId }) => toolId === tool.toolId)
    const place = own?.place ?? findFreePlace(taken, isOperator)
    try {
      return await actors.ask(id, registerCommunityToolCommand, { ...tool, place })
    } catch (error) {
      if (isUniqueViolation(error, 'community_tools'))
        throw lookAlikeToolNameError(
          tool.slug,
          (await store.lookAlikes([tool.slug]))[0] ?? tool.slug,
        )
      // Another registration has taken the place meanwhile.
      if (!isUniqueViolation(error, 'community_tool_places')) throw error
    }
  }
}

/** Any free place, so that registrations at one instant seldom want the same one. */
function findFreePlace(taken: readonly CommunityToolBuilderSlot[], isOperator: boolean): number {
  const places = new Set(taken.map(({ place }) => place))
  if (isOperator) return Math.max(LIMITS.communityTools, ...places) + 1
  const free = Array.from({ length: LIMITS.communityTools }, (_, at) => at + 1).filter(
    (place) => !places.has(place),
  )
  const place = free.length === 0 ? undefined : free[randomInt(free.length)]
  if (place === undefined) throw createCommunityToolLimitError()
  return place
}

export const createCommunityToolLimitError = (): ServiceError =>
  new ServiceError('limit_reached', { limit: LIMITS.communityTools, of: 'tools' })
