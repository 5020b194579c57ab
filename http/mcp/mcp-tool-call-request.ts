import type { FastifyRequest } from 'fastify'
import type { CallerConnection, CallRequest } from '../../calls/call-request-and-reply-types.ts'
import { readPaymentHeader, type PaymentHeader } from '../../chain/find-request-payment-header.ts'
import { invalidInputError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  boundBackpackIdOf,
  requireBackpackWithinKeyBinding,
  resolveRequestBackpackId,
} from '../auth/request-backpack-and-key-binding-check.ts'
import { createCrewRateLimit, parseTaskIdHeader, toGhostMode } from '../http-tool-call-request.ts'
import {
  callFingerprintKeyOf,
  hmacFingerprint,
  parseIdempotencyKey,
  toIdempotencyKey,
} from '../http-idempotency-keys.ts'
import { isPathId } from '../schemas/shared-schemas.ts'

/** Turns an MCP tool call into a call of the same path as `/api/refuel`. */

/** A `tools/call` after its name was resolved. */
export interface McpToolCall {
  readonly slug: string
  readonly args: Readonly<Record<string, unknown>>
  readonly meta: Readonly<Record<string, unknown>>
}

/** Fields of `_meta` that steer a call. Each takes precedence over the HTTP header of the same purpose. */
const META_FIELDS = {
  idempotencyKey: 'gas/idempotency_key',
  taskId: 'gas/task_id',
  backpackId: 'gas/backpack_id',
  ghostMode: 'gas/ghost_mode',
} as const
/** A payment of x402: the second name is that of an older client. */
const PAYMENT_FIELDS = ['x402/payment', 'x402.payment'] as const

/**
 * Returns the call of a request. Its fingerprint covers what the call does, and neither the id of the message
 * nor the payment: a retry is the same request. Throws for malformed fields and for a Backpack outside the
 * binding of the key.
 */
export function toMcpCallRequest(
  request: FastifyRequest,
  connection: CallerConnection,
  { slug, args, meta }: McpToolCall,
): CallRequest {
  const key = readIdempotencyKey(request, meta)
  const steering = {
    taskId: readTaskId(request, meta),
    backpackId: readBackpackId(request, meta),
    ghost: readGhostMode(request, meta),
  }
  const paymentHeader = readMetaPayment(meta)
  const { fingerprintKey } = request.server.services.config
  const { agentId } = request.caller
  const identity = ['tools/call', slug, args, steering, boundBackpackIdOf(request)]
  const ownKey = agentId === null ? fingerprintKey : callFingerprintKeyOf(fingerprintKey, agentId)
  return {
    tool: slug,
    body: { ...args, tool: slug },
    caller: request.caller,
    ...steering,
    idempotency: key === null ? null : { key, hash: hmacFingerprint(identity, ownKey) },
    door: {
      path: `mcp://tool/${slug}`,
      body: Buffer.alloc(0),
      paymentHeader,
      fingerprint: paymentHeader === null ? '' : hmacFingerprint(identity, fingerprintKey),
      address: request.caller.visitorId,
      key,
    },
    connection,
    requestId: request.id,
    takeRateToken: createCrewRateLimit(request.server.limits, request.caller.agentId),
  }
}

const pointerOf = (field: string): string => `/_meta/${field.replace('/', '~1')}`

function readIdempotencyKey(request: FastifyRequest, meta: McpToolCall['meta']): string | null {
  const { idempotencyKey: field } = META_FIELDS
  return meta[field] === undefined
    ? parseIdempotencyKey(request)
    : toIdempotencyKey(meta[field], pointerOf(field))
}

function readTaskId(request: FastifyRequest, meta: McpToolCall['meta']): string | null {
  const { taskId: field } = META_FIELDS
  const id = meta[field]
  if (id === undefined) return parseTaskIdHeader(request)
  if (isPathId(id)) return id
  throw invalidInputError(pointerOf(field), 'must be the id of a task')
}

function readBackpackId(request: FastifyRequest, meta: McpToolCall['meta']): string | null {
  const { backpackId: field } = META_FIELDS
  const id = meta[field]
  if (id === undefined) return resolveRequestBackpackId(request)
  if (!isPathId(id)) throw invalidInputError(pointerOf(field), 'must be the id of a Backpack')
  return requireBackpackWithinKeyBinding(boundBackpackIdOf(request), id)
}

function readGhostMode(request: FastifyRequest, meta: McpToolCall['meta']): CallRequest['ghost'] {
  const { ghostMode: field } = META_FIELDS
  return meta[field] === undefined
    ? toGhostMode(request.headers['x-ghost-mode'], '/headers/x-ghost-mode')
    : toGhostMode(meta[field], pointerOf(field))
}

/** Clients send the payment as an object, or as the base64 text of the HTTP header. */
function readMetaPayment(meta: McpToolCall['meta']): PaymentHeader | null {
  const [given] = PAYMENT_FIELDS.flatMap((field) => meta[field] ?? [])
  if (given === undefined) return null
  const text = typeof given === 'string' ? given : toBase64Json(given)
  return readPaymentHeader({ 'payment-signature': text })
}

/** Encodes an object; one that no header would hold stays unreadable. */
function toBase64Json(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length > LIMITS.paymentHeaderBytes ? '' : Buffer.from(text).toString('base64')
}
