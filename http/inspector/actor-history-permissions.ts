import type { FastifyRequest } from 'fastify'
import { ServiceError } from '../../core/errors.ts'
import type { ActorSearchResult } from '../../persistence/inspector/actor-search-store.ts'
import type { InspectorAccess } from './inspector-access.ts'

/** Whose past a caller may read. */

/** The route takes keys, and the token of the operator, which is no key. */
export const KEY_OR_OPERATOR_ROUTE_CONFIG = {
  auth: 'optional',
  scope: 'read',
  bound: 'reads',
  operatorToken: true,
} as const

/** Whether the caller may read the actor: the operator any, an agent its own. */
export function mayReadActor(
  access: Pick<InspectorAccess, 'isOperator'>,
  request: FastifyRequest,
  actor: ActorSearchResult,
): boolean {
  if (access.isOperator(request)) return true
  const { apiKey, agentId } = request
  if (apiKey === null) return false
  const context = actor.state.context as Readonly<Record<string, unknown>>
  if (apiKey.backpackId !== null)
    return actor.aggregateId === agentId && belongsToBackpack(actor, context, apiKey.backpackId)
  if (actor.aggregateKind === 'agent') return actor.aggregateId === agentId
  if (actor.kind === 'fleet') return context['ownerId'] === agentId
  if (actor.kind === 'tool') return context['builderId'] === agentId
  if (actor.kind === 'listing') return context['sellerId'] === agentId
  return actor.kind === 'bounty' && context['posterId'] === agentId
}

const belongsToBackpack = (
  { kind, id }: ActorSearchResult,
  context: Readonly<Record<string, unknown>>,
  backpackId: string,
): boolean => (kind === 'backpack' ? id === backpackId : context['backpackId'] === backpackId)

/** Throws 401 unless the operator asks. */
export function assertInspectorOperator(
  access: Pick<InspectorAccess, 'isOperator'>,
  request: FastifyRequest,
): void {
  if (access.isOperator(request)) return
  throw new ServiceError('unauthenticated', { detail: 'The operator token is required.' })
}
