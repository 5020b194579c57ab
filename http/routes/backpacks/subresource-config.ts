import { Type } from 'typebox'
import { getBackpackCommand, type BackpackView } from '../../../actors/commands/backpacks.ts'
import { ServiceError } from '../../../core/errors.ts'
import { IdSchema } from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../services.ts'

/** A request below the path of one Backpack. */
interface BackpackPathRequest {
  readonly agentId: string
  readonly params: { readonly id: string }
}

/** Who may reach what a Backpack keeps. */
export const backpackRouteConfig = { auth: 'key', scope: 'backpacks' } as const
/** Where the OpenAPI document lists it. */
export const backpackRouteTags = ['backpacks']
/** The Backpack a path names. */
export const BackpackPathParams = Type.Object({ id: IdSchema })
/** The answer once an entry is gone. */
export const RemovedResponse = Type.Object({ removed: Type.Boolean() })

/** The Backpack of the path; refuses one of somebody else as one that is not there. */
export const readOwnBackpack = (
  { actors }: HttpServices,
  { agentId, params: { id } }: BackpackPathRequest,
): Promise<BackpackView> =>
  actors.ask(agentId, getBackpackCommand, { backpackId: id }, { touch: [{ kind: 'backpack', id }] })

/** Nothing is added to a Backpack that has ended. */
export async function assertPathBackpackActive(
  services: HttpServices,
  request: BackpackPathRequest,
): Promise<void> {
  const { state, backpackId } = await readOwnBackpack(services, request)
  if (state === 'active') return
  const details = { backpack_id: backpackId }
  throw new ServiceError(state === 'revoked' ? 'REVOKED' : 'EXPIRED', details)
}
