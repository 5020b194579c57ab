import { Type } from 'typebox'
import {
  getBackpackCommand,
  type BackpackView,
} from '../../../actors/commands/backpacks-commands.ts'
import { ServiceError } from '../../../core/errors.ts'
import { PathIdSchema } from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'

/** What the routes below `/api/backpack/:id` share. */

/** A request below the path of one Backpack. */
interface BackpackPathRequest {
  readonly agentId: string
  readonly params: { readonly id: string }
}

/** Route access for everything stored in a Backpack. */
export const backpackRouteConfig = { auth: 'key', scope: 'backpacks' } as const
/** Tags of these routes in the OpenAPI document. */
export const backpackRouteTags = ['backpacks']
/** Path parameters that name the Backpack. */
export const BackpackPathParams = Type.Object({ id: PathIdSchema })
/** Response to a removal. */
export const RemovalReplySchema = Type.Object({ removed: Type.Boolean() })

/** Returns the Backpack of the path; throws the same `not_found` for a missing one and another agent's. */
export const requireOwnBackpackOfPath = (
  { actors }: HttpServices,
  { agentId, params: { id } }: BackpackPathRequest,
): Promise<BackpackView> =>
  actors.ask(agentId, getBackpackCommand, { backpackId: id }, { touch: [{ kind: 'backpack', id }] })

/** Throws for a Backpack that has ended: nothing can be added to it. */
export async function assertPathBackpackActive(
  services: HttpServices,
  request: BackpackPathRequest,
): Promise<void> {
  const { state, backpackId } = await requireOwnBackpackOfPath(services, request)
  if (state === 'active') return
  const details = { backpack_id: backpackId }
  throw new ServiceError(state === 'revoked' ? 'REVOKED' : 'EXPIRED', details)
}
