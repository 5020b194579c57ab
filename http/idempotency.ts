import type { FastifyReply, FastifyRequest } from 'fastify'
import { hmac } from '../core/crypto.ts'
import { invalid } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { Answered, Asked } from '../persistence/once.ts'
import { backpackOf, bindingOf } from './binding.ts'

const VISIBLE = /^[\x21-\x7e]{1,255}$/
/** A UUID, or 22 characters of base64url or hex: what 128 random bits take. */
const UNGUESSABLE = /^[A-Za-z0-9_-]{22,255}$/

/** The Idempotency-Key of a request, if it carries one. */
export function idempotencyKey(request: FastifyRequest): string | null {
  const key = request.headers['idempotency-key']
  if (key === undefined) return null
  if (typeof key === 'string' && VISIBLE.test(key)) return key
  throw invalid('/headers/idempotency-key', 'must be 1 to 255 visible ASCII characters')
}

/** The request as a write that is done once; its operation is the route's. */
export function asked(request: FastifyRequest): Asked {
  const { config, schema } = request.routeOptions
  const { operationId } = schema as { operationId: string }
  const key = idempotencyKey(request)
  const stranger = config.secret === true && request.caller.agentId === null
  if (stranger) assertUnguessable(key)
  return {
    owner: request.caller.agentId ?? request.caller.visitorId,
    agentId: request.caller.agentId,
    keyId: request.caller.key?.id ?? null,
    key,
    hash: key === null ? '' : fingerprint(request),
    operation: operationId,
    secret: config.secret === true,
    ...(stranger ? { replaySeconds: LIMITS.strangerReplaySeconds } : {}),
  }
}

/** Behind one address anybody who guesses the key gets the secret of its first sender (decision 56). */
function assertUnguessable(key: string | null): void {
  if (key === null || UNGUESSABLE.test(key)) return
  throw invalid(
    '/headers/idempotency-key',
    'must be a UUID or at least 22 random characters of base64url or hex: the answer holds a secret, and no API key says whose it is',
  )
}

/**
 * Sends the one answer, and says when it was given before. A kept answer has lost its type: the
 * response schema of the route is what holds it to its form.
 */
export async function answer(reply: FastifyReply, answered: Promise<Answered>): Promise<never> {
  const { status, body, replayed, notKept } = await answered
  if (replayed) reply.header('idempotency-replayed', 'true')
  if (notKept !== undefined) reply.header('idempotency-kept', `false; reason=${notKept}`)
  reply.code(status)
  if (status >= 400) reply.type('application/problem+json').serializer(JSON.stringify)
  return body as never
}

/**
 * What makes two requests the same: method, address, body, the headers that steer a call, and who may
 * be told its answer.
 */
export function fingerprint(request: FastifyRequest): string {
  const { headers, method, url, body } = request
  const steering = [
    headers['x-task-id'] ?? null,
    backpackOf(request),
    headers['x-ghost-mode'] ?? null,
  ]
  const { fingerprintKey } = request.server.services.config
  return fingerprintOf([method, url, body ?? null, steering, ...readersOf(request)], fingerprintKey)
}

/**
 * Narrows who is told a kept answer: that of a bound key is told to keys of the same binding, and one
 * that holds a secret to the API key that asked for it. All others are told 422.
 */
function readersOf(request: FastifyRequest): string[] {
  const bound = bindingOf(request)
  const { caller, routeOptions } = request
  const secretOf = routeOptions.config.secret === true ? (caller.key?.id ?? null) : null
  return [bound, secretOf].filter((reader) => reader !== null)
}

/** What stands for a request: equal for equal ones, and telling nothing of what they hold. */
export const fingerprintOf = (asked: unknown, key: Buffer): string =>
  hmac(key, canonical(asked)).toString('hex')

/** JSON with sorted names: the order in which a client spells its fields is not part of the request. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
}
