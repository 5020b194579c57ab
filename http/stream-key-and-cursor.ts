import type { FastifyRequest } from 'fastify'
import { invalidInputError } from '../core/errors.ts'
import type { ApiKeyRecord, ApiKeyStore } from '../persistence/agents/api-key-store.ts'
import type { StreamApiKey } from '../realtime/open-stream-registry.ts'

/** What a stream remembers of the key it was opened with: enough to notice its end. */
export const toStreamKey = (
  { id, agentId, expiresAt }: ApiKeyRecord,
  secret: string,
  keys: Pick<ApiKeyStore, 'hash'>,
): StreamApiKey => ({ id, agentId, expiresAt, hash: keys.hash(secret) })

/** A cursor as clients send it. */
export const STREAM_CURSOR_PATTERN = '^(0|[1-9][0-9]{0,17})$'

/**
 * The header of a stream that is taken up again; it wins over the query. Refuses what is no cursor:
 * who began with the present instead would miss something, and not know it.
 */
export function parseLastEventId({ headers }: FastifyRequest): string | null {
  const id = headers['last-event-id'] ?? ''
  if (id === '') return null
  if (typeof id === 'string' && new RegExp(STREAM_CURSOR_PATTERN).test(id)) return id
  throw invalidInputError('/last-event-id', 'must be the id of an event of this stream')
}
