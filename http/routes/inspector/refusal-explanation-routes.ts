import { setTimeout as pause } from 'node:timers/promises'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { toActiveLeafStatesText } from '../../../actors/inspection/withhold-secrets-from-inspector.ts'
import { ERROR_DEFINITIONS, ServiceError, type ErrorCode } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { StoredExplainedRefusal } from '../../../persistence/inspector/explained-refusal-store.ts'
import { KEY_OR_OPERATOR_ROUTE_CONFIG } from '../../inspector/actor-history-permissions.ts'
import {
  DateTimeSchema,
  errorResponses,
  Nullable,
  toIsoTime,
} from '../../schemas/shared-schemas.ts'

/** Why the machines have refused something: what `why_url` of a problem opens. */

const tags = ['inspector']
const Transition = Type.Object({
  id: Type.String({ description: 'As the charts of the inspector name it.' }),
  guard: Type.Unknown(),
})
const RefusalFields = {
  id: Type.String(),
  code: Type.String(),
  title: Type.String(),
  detail: Type.String(),
  agent_id: Type.String(),
  actor: Type.Object({ kind: Type.String(), id: Type.String(), name: Type.String() }),
  event: Type.Unknown({ description: 'The rejected event.' }),
  state: Type.String({ description: 'The active leaf states that rejected it.' }),
  value: Type.Unknown(),
  transition: Nullable(Transition),
  passed_over: Type.Array(Transition, { description: 'Their guards did not hold.' }),
  figures: Type.Record(Type.String(), Type.Unknown()),
  call_id: Nullable(Type.String()),
  request_id: Nullable(Type.String()),
  first_at: DateTimeSchema,
  last_at: DateTimeSchema,
  count: Type.Integer({ description: 'Equal refusals since then.' }),
  inspector_url: Nullable(Type.String()),
}

const getRefusal = {
  config: KEY_OR_OPERATOR_ROUTE_CONFIG,
  schema: {
    operationId: 'explainRefusal',
    summary: 'Why a machine refused: the guard, its figures and the state at that instant',
    description: 'For the refused key, an unbound key of the agent, and the operator.',
    tags,
    params: Type.Object({ id: Type.String({ maxLength: 64 }) }),
    response: {
      200: Type.Object({
        ...RefusalFields,
        context: Type.Record(Type.String(), Type.Unknown(), {
          description: 'Empty where the caller may not read the actor.',
        }),
      }),
      ...errorResponses,
    },
  },
}

const listRefusals = {
  config: { ...KEY_OR_OPERATOR_ROUTE_CONFIG, ownerSession: true } as const,
  schema: {
    operationId: 'listRefusals',
    summary: 'The latest refusals of an agent, equal ones counted',
    tags,
    querystring: Type.Object({
      agent: Type.Optional(Type.String({ maxLength: 64, description: 'For the operator' })),
      limit: Type.Optional(
        Type.Integer({ minimum: 1, maximum: LIMITS.explainedRefusals, default: 50 }),
      ),
    }),
    response: {
      200: Type.Object({
        refusals: Type.Array(Type.Object(RefusalFields)),
        count: Type.Integer(),
      }),
      ...errorResponses,
    },
  },
}

/** Another node writes its refusals within this time. Those of strangers take as long as unknown ones. */
const WRITTEN_MS = 1_200

/** Explains refusals. */
export const refusalExplanationRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, explained, inspectorAccess: access, refusalStore } = app.services

  app.get('/api/why/:id', getRefusal, async (request) => {
    const { id } = request.params
    const isOperator = access.isOperator(request)
    if (!isUuid(id) || (!isOperator && request.apiKey === null)) throw new ServiceError('not_found')
    await explained.written()
    const readable = async (): Promise<StoredExplainedRefusal | null> => {
      const found = await refusalStore.find(id)
      return found !== null && mayRead(request, found, isOperator) ? found : null
    }
    const found = (await readable()) ?? (await pause(WRITTEN_MS).then(readable))
    if (found === null) throw new ServiceError('not_found')
    return { ...toView(found), context: mayReadContext(request, found, isOperator) }
  })

  app.get('/api/why', listRefusals, async (request) => {
    const { agent, limit = 50 } = request.query
    const isOperator = access.isOperator(request)
    if (!isOperator && request.apiKey === null) throw new ServiceError('unauthenticated')
    const agentId = isOperator ? agent : request.agentId
    if (agentId === undefined || !isUuid(agentId)) throw new ServiceError('not_found')
    if (!isOperator && agent !== undefined && agent !== agentId) throw new ServiceError('not_found')
    await explained.written()
    const isBound = !isOperator && (request.apiKey?.backpackId ?? null) !== null
    const keyId = isBound ? (request.apiKey?.id ?? null) : null
    const refusals = (await refusalStore.list(agentId, keyId, limit)).map(toView)
    return { refusals, count: refusals.length }
  })

  const toView = ({ id, code, agentId, times, firstAt, lastAt, data }: StoredExplainedRefusal) => {
    const { actor, event, value, transition, passed_over, figures, detail } =
      data as unknown as RefusalData
    const { kind, id: actorId } = actor
    return {
      id,
      code,
      title: titleOf(code),
      detail,
      agent_id: agentId,
      actor,
      event,
      state: toActiveLeafStatesText(value),
      value,
      transition,
      passed_over,
      figures,
      call_id: data['call_id'] as string | null,
      request_id: data['request_id'] as string | null,
      first_at: toIsoTime(firstAt),
      last_at: toIsoTime(lastAt),
      count: times,
      inspector_url:
        app.services.inspection === null
          ? null
          : `${config.publicUrl}/inspector#${kind}/${encodeURIComponent(actorId)}`,
    }
  }
}

/** A code of an earlier version of the station may have no title any more. */
const titleOf = (code: string): string =>
  Object.hasOwn(ERROR_DEFINITIONS, code) ? ERROR_DEFINITIONS[code as ErrorCode].title : code

interface RefusalData {
  readonly actor: { readonly kind: string; readonly id: string; readonly name: string }
  readonly aggregate_id: string
  readonly event: unknown
  readonly value: unknown
  readonly context: Record<string, unknown>
  readonly transition: { id: string; guard: unknown } | null
  readonly passed_over: { id: string; guard: unknown }[]
  readonly figures: Record<string, unknown>
  readonly detail: string
}

/** The refused key, and unbound keys of its agent. */
function mayRead(
  request: FastifyRequest,
  refusal: StoredExplainedRefusal,
  isOperator: boolean,
): boolean {
  if (isOperator) return true
  const { apiKey } = request
  if (apiKey === null || apiKey.agentId !== refusal.agentId) return false
  return apiKey.backpackId === null || apiKey.id === refusal.keyId
}

/** The context of a stranger's bounty or fleet is not shown, nor that of the agent to a bound key. */
function mayReadContext(
  { apiKey, agentId }: FastifyRequest,
  { data }: StoredExplainedRefusal,
  isOperator: boolean,
): Record<string, unknown> {
  const { actor, aggregate_id: aggregateId, context } = data as unknown as RefusalData
  if (isOperator) return context
  if (aggregateId !== agentId || apiKey === null) return {}
  const { backpackId } = apiKey
  const isOwn =
    backpackId === null || actor.id === backpackId || context['backpackId'] === backpackId
  return isOwn ? context : {}
}
