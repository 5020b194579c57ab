import type { FastifyRequest } from 'fastify'
import { invalid } from '../../core/errors.ts'
import type { KeyRecord, KeyStore } from '../../persistence/keys.ts'
import type { StreamKey } from '../../realtime/presence.ts'

/** What a stream remembers of the key it was opened with: enough to notice its end. */
export const streamKey = (
  { id, agentId, expiresAt }: KeyRecord,
  secret: string,
  keys: Pick<KeyStore, 'hash'>,
): StreamKey => ({ id, agentId, expiresAt, hash: keys.hash(secret) })

/** A cursor as clients send it. */
export const CURSOR_TEXT = '^(0|[1-9][0-9]{0,17})$'

/**
 * The header of a stream that is taken up again; it wins over the query. Refuses what is no cursor:
 * who began with the present instead would miss something, and not know it.
 */
export function lastEventId({ headers }: FastifyRequest): string | null {
  const id = headers['last-event-id'] ?? ''
  if (id === '') return null
  if (typeof id === 'string' && new RegExp(CURSOR_TEXT).test(id)) return id
  throw invalid('/last-event-id', 'must be the id of an event of this stream')
}
