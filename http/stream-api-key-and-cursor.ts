import type { FastifyRequest } from 'fastify'
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

/**
 * Parses `Last-Event-ID`, which takes precedence over the query. Throws for a malformed cursor: starting from
 * now would lose events silently.
 */
export function parseLastEventId({ headers }: FastifyRequest): string | null {
  const id = headers['last-event-id'] ?? ''
  if (id === '') return null
  if (typeof id === 'string' && new RegExp(STREAM_CURSOR_PATTERN).test(id)) return id
  throw invalidInputError('/last-event-id', 'must be the id of an event of this stream')
}
