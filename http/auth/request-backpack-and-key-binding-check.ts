import type { FastifyRequest } from 'fastify'
import type { ActorSystem } from '../../actors/aggregate-command-types.ts'
import type { BackpackRefusalLog } from '../../calls/backpack-refusal-log.ts'
import { getBackpackCommand } from '../../actors/commands/backpacks-commands.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { isPathId } from '../schemas/shared-schemas.ts'

/** Resolves the Backpack of a request and enforces the binding of its API key. */

type KeyedRequest = Pick<FastifyRequest, 'apiKey' | 'headers'>

/**
 * Returns the Backpack of a request: the one in the header `x-backpack-id`, else the one its key is bound to;
 * null for none. Throws 400 for a malformed header and 403 for a Backpack outside the key's binding, whether
 * or not that Backpack exists.
 */
export function resolveRequestBackpackId({ apiKey, headers }: KeyedRequest): string | null {
  const header = headers['x-backpack-id']
  const bound = apiKey?.backpackId ?? null
  if (header === undefined) return bound
  if (!isPathId(header))
    throw invalidInputError('/headers/x-backpack-id', 'must be the id of a Backpack')
  return requireBackpackWithinKeyBinding(bound, header)
}

/** Returns the named Backpack if the key's binding allows it; throws 403 otherwise. */
export function requireBackpackWithinKeyBinding(bound: string | null, named: string): string {
  if (bound === null || named === bound) return named
  throw backpackOutsideKeyBindingError(bound, named)
}

/** Returns the Backpack that the request's key is bound to; null for none. */
export const boundBackpackIdOf = ({ apiKey }: Pick<KeyedRequest, 'apiKey'>): string | null =>
  apiKey?.backpackId ?? null

/** The error for a bound key that names another Backpack than its own. */
export const backpackOutsideKeyBindingError = (bound: string, requested: string): ServiceError =>
  new ServiceError('key_bound', {
    detail: `This key is bound to Backpack ${bound}, but the request names ${requested}.`,
    backpack_id: bound,
    asked_backpack_id: requested,
  })

/** Routes below this path act on the Backpack named in the path. */
const BACKPACK_PATH = '/api/backpack/:id'

interface BindingDeps {
  readonly actors: Pick<ActorSystem, 'ask'>
  readonly refusals: Pick<BackpackRefusalLog, 'noteError'>
}

/**
 * Enforces the binding of a key before any other check of a route. Throws where the route does not declare
 * bound access (`config.bound`), where the header (403) or the path (404) names another Backpack, and where
 * the Backpack has ended and the route writes.
 */
export async function assertKeyBackpackBinding(
  request: Pick<FastifyRequest, 'agentId' | 'method' | 'params' | 'routeOptions'> & KeyedRequest,
  { actors, refusals }: BindingDeps,
): Promise<void> {
  const backpackId = request.apiKey?.backpackId ?? null
  if (backpackId === null) return
  const { config, url = '' } = request.routeOptions
  if (config.bound === undefined) throw unboundKeyRequiredError(request, backpackId)
  if (config.checksBinding === true) return
  resolveRequestBackpackId(request)
  const { id: named } = request.params as { id?: string }
  if (url.startsWith(BACKPACK_PATH) && named !== backpackId)
    throw new ServiceError('NOT_FOUND', { backpack_id: named })
  if (config.bound !== 'acts') return
  try {
    await assertBackpackActive(actors, request.agentId, backpackId)
  } catch (error) {
    // The permission is not parsed yet, so the spend log names the operation of the route.
    const { operationId } = request.routeOptions.schema as { operationId: string }
    refusals.noteError(backpackId, operationId, error)
    throw error
  }
}

/** Throws `REVOKED` or `EXPIRED` (403) for a Backpack that has ended. */
export async function assertBackpackActive(
  actors: Pick<ActorSystem, 'ask'>,
  agentId: string,
  backpackId: string,
): Promise<void> {
  const touch = [{ kind: 'backpack', id: backpackId }] as const
  const { state } = await actors.ask(agentId, getBackpackCommand, { backpackId }, { touch })
  if (state === 'revoked') throw new ServiceError('REVOKED', { backpack_id: backpackId })
  if (state === 'expired')
    throw new ServiceError('EXPIRED', { backpack_id: backpackId, remedy: { action: 'ask_owner' } })
}

function unboundKeyRequiredError(
  { method, routeOptions }: Pick<FastifyRequest, 'method' | 'routeOptions'>,
  backpackId: string,
): ServiceError {
  const route = `${method} ${routeOptions.url ?? ''}`.replace(/:(\w+)/g, '{$1}')
  const detail = `This key is bound to Backpack ${backpackId} and cannot use ${route}: that takes a key that is bound to none.`
  return new ServiceError('key_bound', { detail, backpack_id: backpackId })
}
