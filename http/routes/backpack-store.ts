import { Type } from 'typebox'
import { backpackGet, type BackpackView } from '../../actors/commands/backpacks.ts'
import { ServiceError } from '../../core/errors.ts'
import { Id } from '../schemas.ts'
import type { Services } from '../services.ts'

/** A request below the path of one Backpack. */
interface Asking {
  readonly agentId: string
  readonly params: { readonly id: string }
}

/** Who may reach what a Backpack keeps. */
export const config = { auth: 'key', scope: 'backpacks' } as const
/** Where the OpenAPI document lists it. */
export const tags = ['backpacks']
/** The Backpack a path names. */
export const params = Type.Object({ id: Id })
/** The answer once an entry is gone. */
export const Removed = Type.Object({ removed: Type.Boolean() })

/** The Backpack of the path; refuses one of somebody else as one that is not there. */
export const ownBackpack = (
  { actors }: Services,
  { agentId, params: { id } }: Asking,
): Promise<BackpackView> =>
  actors.ask(agentId, backpackGet, { backpackId: id }, { touch: [{ kind: 'backpack', id }] })

/** Nothing is added to a Backpack that has ended. */
export async function demandActive(services: Services, request: Asking): Promise<void> {
  const { state, backpackId } = await ownBackpack(services, request)
  if (state === 'active') return
  const details = { backpack_id: backpackId }
  throw new ServiceError(state === 'revoked' ? 'REVOKED' : 'EXPIRED', details)
}
