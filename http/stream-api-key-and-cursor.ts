import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { invalidInputError } from '../core/errors.ts'
import type { ApiKeyRecord, ApiKeyStore } from '../persistence/agents/api-key-store.ts'
import type { StreamApiKey } from '../realtime/open-stream-registry.ts'

/** The part of a key that a stream keeps, to notice when the key ends. */
export const toApiKeyDataKeptByStream = (
  { id, agentId, expiresAt }: ApiKeyRecord,
  secret: string,
  keys: Pick<ApiKeyStore, 'hash'>,
): StreamApiKey => ({ id, agentId, expiresAt, hash: keys.hash(secret) })

/** Format of a stream cursor. */
export const STREAM_CURSOR_PATTERN = '^(0|[1-9][0-9]{0,17})$'

/** Event sources that send headers of their own put the header into the query, under either name. */
const LAST_EVENT_ID_PARAMETERS = ['lastEventId', 'Last-Event-ID'] as const
const LastEventIdSchema = Type.Optional(
  Type.String({ description: 'The same as the header Last-Event-ID, which takes precedence.' }),
)
/** Query parameters of every stream of server-sent events. */
export const LastEventIdQuerySchema = {
  lastEventId: LastEventIdSchema,
  'Last-Event-ID': LastEventIdSchema,
}

/**
 * Parses `Last-Event-ID` of the headers, else of the query; either takes precedence over `since`. Throws for a
 * malformed cursor: starting from now would lose events silently.
 */
export function parseLastEventId({ headers, query }: FastifyRequest): string | null {
  const given = query as Readonly<Record<string, unknown>>
  const inQuery = LAST_EVENT_ID_PARAMETERS.map((name) => given[name])
  const id = [headers['last-event-id'], ...inQuery].find((one) => (one ?? '') !== '') ?? null
  if (id === null) return null
  if (typeof id === 'string' && new RegExp(STREAM_CURSOR_PATTERN).test(id)) return id
  throw invalidInputError('/last-event-id', 'must be the id of an event of this stream')
}
