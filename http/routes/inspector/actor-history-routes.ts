import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { ActorSearchResult } from '../../../persistence/inspector/actor-search-store.ts'
import {
  assertInspectorOperator,
  KEY_OR_OPERATOR_ROUTE_CONFIG,
  mayReadActor,
} from '../../inspector/actor-history-permissions.ts'
import { createActorHistoryReadQueue } from '../../inspector/journal-search-concurrency-limit.ts'
import { toActorHistoryView, toActorListItem } from '../../inspector/actor-views.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import { DateTimeSchema, errorResponses, Nullable } from '../../schemas/shared-schemas.ts'

/** Stored actors and their past, from the journal. */

const tags = ['inspector']
const ActorText = (description: string) =>
  Type.String({ minLength: 1, maxLength: 200, pattern: '^[^\\u0000]+$', description })
const State = Type.Unsafe<unknown>({
  description: 'The state: a name, an object of regions, or null for a reducer.',
})
const Context = Type.Record(Type.String(), Type.Unknown(), {
  description: 'Amounts are USDC numbers; what people may not see is "[redacted]".',
})

const listActors = {
  config: KEY_OR_OPERATOR_ROUTE_CONFIG,
  schema: {
    operationId: 'listActors',
    summary: 'Stored actors, also those at rest, for the operator',
    tags,
    querystring: Type.Object({
      ...PaginationQuery,
      kind: Type.Optional(ActorText('A kind of actor, such as agent or backpack')),
      q: Type.Optional(ActorText('A part of an id or a name')),
      agent: Type.Optional(ActorText('An agent, with its bounties and payments')),
    }),
    response: {
      200: Type.Object({
        actors: Type.Array(
          Type.Object({
            kind: Type.String(),
            id: Type.String(),
            aggregate_id: Type.String(),
            aggregate_kind: Type.String(),
            parent_id: Nullable(Type.String()),
            name: Type.String(),
            state: Type.String({ description: 'The active leaf states.' }),
            value: State,
            ended: Type.Boolean({
              description: 'Its life is over, though it may still settle what is open.',
            }),
            archived: Type.Boolean({ description: 'It has ended with nothing open.' }),
            version: Type.Integer({ description: 'The version of its aggregate.' }),
          }),
        ),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
        has_more: Type.Boolean(),
      }),
      ...errorResponses,
    },
  },
}

const getHistory = {
  config: KEY_OR_OPERATOR_ROUTE_CONFIG,
  schema: {
    operationId: 'getActorHistory',
    summary: 'The past states of an actor, the latest first, or the one at an instant',
    description:
      'For the actors of your agent, the bounties it posted, its fleets, listings and tools, and for the operator. The states come from the journal alone, so that an old version of a machine is shown as it was.',
    tags,
    params: Type.Object({ kind: ActorText('The kind of the actor'), id: ActorText('Its id') }),
    querystring: Type.Object({
      ...PaginationQuery,
      at: Type.Optional(
        Type.String({
          maxLength: 40,
          description:
            'A version, or an instant with its offset (RFC 3339): the last entry at or before it',
        }),
      ),
    }),
    response: {
      200: Type.Object({
        kind: Type.String(),
        id: Type.String(),
        aggregate_id: Type.String(),
        aggregate_kind: Type.String(),
        name: Type.String(),
        entries: Type.Array(
          Type.Object({
            version: Type.Integer(),
            at: DateTimeSchema,
            command: Type.String(),
            command_id: Type.String(),
            input: Type.Unknown(),
            state: Type.String(),
            value: State,
            value_from: Type.Unsafe<unknown>({ description: 'Null when the state is the same.' }),
            context: Context,
            diff: Type.Array(
              Type.Object({
                path: Type.String({ description: 'A JSON Pointer into the context.' }),
                from: Type.Optional(Type.Unknown()),
                to: Type.Optional(Type.Unknown()),
              }),
            ),
            machine_version: Type.Integer(),
            full: Type.Boolean({ description: 'No earlier state is known.' }),
          }),
        ),
        count: Type.Integer(),
        previous_version: Type.Optional(Nullable(Type.Integer())),
        next_version: Type.Optional(Nullable(Type.Integer())),
        next_cursor: Nullable(Type.String()),
        has_more: Type.Boolean(),
      }),
      ...errorResponses,
    },
  },
}

/** The list of actors, and the history of one. */
export const actorHistoryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actorDirectory, actorHistory, clock, inspectorAccess: access } = app.services
  const runRead = createActorHistoryReadQueue(clock)

  app.get('/api/actors', listActors, async (request) => {
    assertInspectorOperator(access, request)
    const { kind, q: text, agent: agentId, ...page } = request.query
    const { rows, next_cursor } = await paginate(
      page,
      CURSOR_PATTERNS.text,
      (limit, position) =>
        actorDirectory.list({ kind, text, agentId }, limit, toPosition(position)),
      (row) => JSON.stringify([row.kind, row.id, row.aggregateId]),
    )
    const actors = rows.map(toActorListItem)
    return { actors, count: actors.length, next_cursor, has_more: next_cursor !== null }
  })

  async function findActor(request: FastifyRequest): Promise<ActorSearchResult> {
    const { kind, id } = request.params as { kind: string; id: string }
    const found = await actorDirectory.find(kind, id)
    const actor = found.find((one) => mayReadActor(access, request, one))
    if (actor === undefined) throw new ServiceError('not_found')
    return actor
  }

  app.get('/api/actors/:kind/:id/history', getHistory, async (request) => {
    const actor = await findActor(request)
    const { at, limit = LIMITS.pageDefault, cursor } = request.query
    const about = {
      kind: actor.kind,
      id: actor.id,
      aggregate_id: actor.aggregateId,
      aggregate_kind: actor.aggregateKind,
      name: actor.name,
    }
    if (at !== undefined) {
      const found = await runRead(request.agentId, async () => {
        const version = await toVersion(actor, at)
        return version === null ? null : actorHistory.at(actor, version)
      })
      if (found === null) throw new ServiceError('not_found')
      return {
        ...about,
        entries: [toActorHistoryView(actor.kind, found.entry)],
        count: 1,
        previous_version: found.previous,
        next_version: found.next,
        next_cursor: null,
        has_more: false,
      }
    }
    const end = actor.version + 1
    const before = cursor === undefined ? end : Math.min(end, toCursorVersion(cursor))
    const { entries, next } = await runRead(request.agentId, () =>
      actorHistory.page(actor, before, limit),
    )
    return {
      ...about,
      entries: entries.map((entry) => toActorHistoryView(actor.kind, entry)),
      count: entries.length,
      next_cursor: next === null ? null : String(next),
      has_more: next !== null,
    }
  })

  async function toVersion(actor: ActorSearchResult, at: string): Promise<number | null> {
    if (/^\d{1,15}$/.test(at)) return Math.min(Number(at), actor.version)
    const instant = new Date(at)
    if (!INSTANT.test(at) || Number.isNaN(instant.getTime()))
      throw invalidInputError('/at', 'must be a version or an instant such as 2026-01-31T12:00:00Z')
    if (instant >= LATEST) return actor.version
    // Postgres has no year 0.
    return instant < EARLIEST ? null : actorHistory.versionAt(actor.aggregateId, instant)
  }
}

/** With its offset: a time without one would be read in the time zone of the node. */
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/
/** No actor is older. */
const EARLIEST = new Date(0)
/** Later years have more digits than the database reads. */
const LATEST = new Date(Date.UTC(9_999, 0))

function toCursorVersion(cursor: string): number {
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor)
  throw invalidInputError('/cursor', 'must be the next_cursor of an earlier page')
}

function toPosition(position: string | null) {
  if (position === null) return null
  try {
    const [kind, id, aggregateId] = JSON.parse(position) as unknown[]
    if (typeof kind === 'string' && typeof id === 'string' && typeof aggregateId === 'string')
      return { kind, id, aggregateId }
  } catch {
    // not a cursor of this list
  }
  throw invalidInputError('/cursor', 'must be the next_cursor of an earlier page')
}
