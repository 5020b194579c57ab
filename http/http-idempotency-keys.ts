import type { FastifyReply, FastifyRequest } from 'fastify'
import { toCanonicalJson } from '../core/json/canonical.ts'
import { hmacSha256 } from '../core/key-derivation-and-encryption.ts'
import { invalidInputError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type {
  IdempotentReply,
  IdempotentRequest,
} from '../persistence/idempotency/idempotent-writes.ts'
import {
  resolveRequestBackpackId,
  boundBackpackIdOf,
} from './auth/request-backpack-and-key-binding-check.ts'

/** Idempotency keys of HTTP writes: parsing, fingerprints and replays. */

const KEY_PATTERN = /^[\x21-\x7e]{1,255}$/
/** A UUID, or the 22 characters of base64url or hex that 128 random bits need. */
const UNGUESSABLE_KEY_PATTERN = /^[A-Za-z0-9_-]{22,255}$/

/** Returns the Idempotency-Key of a request, or null. */
export function parseIdempotencyKey(request: FastifyRequest): string | null {
  const key = request.headers['idempotency-key']
  return key === undefined ? null : toIdempotencyKey(key, '/headers/idempotency-key')
}

/** Returns an Idempotency-Key as given; throws 400 for a malformed one. */
export function toIdempotencyKey(key: unknown, pointer: string): string {
  if (typeof key === 'string' && KEY_PATTERN.test(key)) return key
  throw invalidInputError(pointer, 'must be 1 to 255 visible ASCII characters')
}

/** Converts a request into an idempotent write; its operation is the route's operationId. */
export function toIdempotentRequest(request: FastifyRequest): IdempotentRequest {
  const { config, schema } = request.routeOptions
  const { operationId } = schema as { operationId: string }
  const key = parseIdempotencyKey(request)
  const stranger = config.secret === true && request.caller.agentId === null
  if (stranger) assertUnguessable(key)
  return {
    owner: request.caller.agentId ?? request.caller.visitorId,
    agentId: request.caller.agentId,
    keyId: request.caller.key?.id ?? null,
    key,
    hash: key === null ? '' : fingerprintRequest(request),
    operation: operationId,
    secret: config.secret === true,
    ...(stranger ? { replaySeconds: LIMITS.anonymousReplaySeconds } : {}),
  }
}

/**
 * Anonymous callers share an owner per address: a guessable key would give the sender's secret to another
 * caller (decision 56).
 */
function assertUnguessable(key: string | null): void {
  if (key === null || UNGUESSABLE_KEY_PATTERN.test(key)) return
  throw invalidInputError(
    '/headers/idempotency-key',
    'must be a UUID or at least 22 random characters of base64url or hex: the answer holds a secret, and no API key says whose it is',
  )
}

/**
 * Sends the stored or new reply and marks a replay. A stored reply is untyped; the route's response schema
 * validates its form.
 */
export async function sendIdempotentReply(
  reply: FastifyReply,
  answered: Promise<IdempotentReply>,
): Promise<never> {
  const { status, body, replayed, notKept } = await answered
  if (replayed) reply.header('idempotency-replayed', 'true')
  if (notKept !== undefined) reply.header('idempotency-kept', `false; reason=${notKept}`)
  reply.code(status)
  if (status >= 400) reply.type('application/problem+json').serializer(JSON.stringify)
  return body as never
}

/**
 * Hashes what makes two requests equal: method, address, body, the headers that affect a call, and the
 * audience of the reply.
 */
export function fingerprintRequest(
  request: FastifyRequest,
  key = request.server.services.config.fingerprintKey,
): string {
  const { headers, method, url, body } = request
  const steering = [
    headers['x-task-id'] ?? null,
    resolveRequestBackpackId(request),
    headers['x-ghost-mode'] ?? null,
  ]
  return hmacFingerprint([method, url, body ?? null, steering, ...replayAudienceOf(request)], key)
}

/**
 * Fingerprints a call of a tool. The key of its agent lets the agent check the hash in a receipt, and nobody
 * else guess requests from hashes.
 */
export function fingerprintToolCall(request: FastifyRequest): string {
  const { fingerprintKey } = request.server.services.config
  const { agentId } = request.caller
  return fingerprintRequest(
    request,
    agentId === null ? fingerprintKey : callFingerprintKeyOf(fingerprintKey, agentId),
  )
}

/** The key that fingerprints the calls of an agent. */
export const callFingerprintKeyOf = (fingerprintKey: Buffer, agentId: string): Buffer =>
  hmacSha256(fingerprintKey, `calls of ${agentId}`)

/**
 * Limits replays: the reply to a bound key goes to keys with the same binding, and a reply with a secret only
 * to the API key that requested it. Others get 422.
 */
function replayAudienceOf(request: FastifyRequest): string[] {
  const bound = boundBackpackIdOf(request)
  const { caller, routeOptions } = request
  const secretOf = routeOptions.config.secret === true ? (caller.key?.id ?? null) : null
  return [bound, secretOf].filter((reader) => reader !== null)
}

/** Returns an HMAC of a request: equal for equal requests, without revealing their content. */
export const hmacFingerprint = (parts: unknown, key: Buffer): string =>
  hmacSha256(key, toCanonicalJson(parts)).toString('hex')
