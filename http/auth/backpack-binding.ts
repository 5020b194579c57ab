import type { FastifyRequest } from 'fastify'
import type { ActorSystem } from '../../actors/command.ts'
import type { BackpackRefusalLog } from '../../calls/backpack-refusal-log.ts'
import { getBackpackCommand } from '../../actors/commands/backpacks.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { isPathId } from '../schemas/shared-schemas.ts'

type KeyedRequest = Pick<FastifyRequest, 'apiKey' | 'headers'>

/**
 * The Backpack a request acts in: the one of its header `x-backpack-id`, else the one its key is bound
 * to; null for none. Rejects a header that is no id (400), and one that names another Backpack than
 * the binding of the key (403). The refusal is the same whether the other Backpack exists or not.
 */
export function resolveRequestBackpackId({ apiKey, headers }: KeyedRequest): string | null {
  const header = headers['x-backpack-id']
  const bound = apiKey?.backpackId ?? null
  if (header === undefined) return bound
  if (!isPathId(header))
    throw invalidInputError('/headers/x-backpack-id', 'must be the id of a Backpack')
  return resolveBoundBackpackId(bound, header)
}

/** The Backpack that is named, where the binding of a key allows it; rejects another one (403). */
export function resolveBoundBackpackId(bound: string | null, named: string): string {
  if (bound === null || named === bound) return named
  throw outsideKeyBindingError(bound, named)
}

/** The Backpack that the key of a request is bound to; null for none. */
export const boundBackpackIdOf = ({ apiKey }: Pick<KeyedRequest, 'apiKey'>): string | null =>
  apiKey?.backpackId ?? null

/** The refusal of a bound key that names a Backpack other than its own. */
export const outsideKeyBindingError = (bound: string, asked: string): ServiceError =>
  new ServiceError('key_bound', {
    detail: `This key acts in Backpack ${bound} only, and the request names ${asked}.`,
    backpack_id: bound,
    asked_backpack_id: asked,
  })

/** Rejects (403) a key that is bound to a Backpack. `deed` completes "cannot". */
export function assertUnboundKey({ apiKey }: Pick<KeyedRequest, 'apiKey'>, action: string): void {
  const bound = apiKey?.backpackId ?? null
  if (bound === null) return
  const detail = `A key that is bound to a Backpack cannot ${action}.`
  throw new ServiceError('key_bound', { detail, backpack_id: bound })
}

/** Below this path a route is about the Backpack it names. */
const BACKPACK_PATH = '/api/backpack/:id'

interface BindingDeps {
  readonly actors: Pick<ActorSystem, 'ask'>
  readonly refusals: Pick<BackpackRefusalLog, 'noteError'>
}

/**
 * Holds a bound key to its Backpack on every route, before anything else is asked. A route that does
 * not say what such a key may do there (`config.bound`) refuses it. So does another Backpack in the
 * header (403) or in the path (404), and a Backpack that has ended where the route changes something.
 */
export async function assertKeyBinding(
  request: FastifyRequest,
  { actors, refusals }: BindingDeps,
): Promise<void> {
  const backpackId = request.apiKey?.backpackId ?? null
  if (backpackId === null) return
  const { config, url = '' } = request.routeOptions
  if (config.bound === undefined) throw unboundKeyRequiredError(request, backpackId)
  resolveRequestBackpackId(request)
  const { id: named } = request.params as { id?: string }
  if (url.startsWith(BACKPACK_PATH) && named !== backpackId)
    throw new ServiceError('NOT_FOUND', { backpack_id: named })
  if (config.bound !== 'acts') return
  try {
    await assertBackpackActive(actors, request.agentId, backpackId)
  } catch (error) {
    // What it would have asked for is not read yet: the route stands for it in the spend log.
    const { operationId } = request.routeOptions.schema as { operationId: string }
    refusals.noteError(backpackId, operationId, error)
    throw error
  }
}

/** Rejects with `REVOKED` or `EXPIRED` (403) where a Backpack has ended. */
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
  { method, routeOptions }: FastifyRequest,
  backpackId: string,
): ServiceError {
  const route = `${method} ${routeOptions.url ?? ''}`.replace(/:(\w+)/g, '{$1}')
  const detail = `This key is bound to Backpack ${backpackId} and cannot use ${route}: that takes a key that is bound to none.`
  return new ServiceError('key_bound', { detail, backpack_id: backpackId })
}
