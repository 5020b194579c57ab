import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type {
  CallReply,
  CallRequest,
  ToolCallBatchRequest,
} from '../calls/call-request-and-reply-types.ts'
import { invalidInputError, ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { ToolCatalogue } from '../tools/tool-catalogue.ts'
import { resolveRequestBackpackId } from './auth/backpack-binding.ts'
import { bodyTooLargeError } from './plugins/body-parser.ts'
import { toRequestPaymentContext } from './request-payment-context.ts'
import { fingerprintRequest, parseIdempotencyKey } from './idempotency.ts'
import type { RequestRateLimiter } from './plugins/http-request-rate-limits.ts'
import { isPathId } from './schemas/shared-schemas.ts'

/** Parses HTTP requests into tool calls, and sends their replies. */

const LARGE_BODY_TOOLS = new Set(['code_sandbox', 'code-sandbox'])

/** Body of a call: the tool's slug, with the tool's fields beside it. */
export type ToolCallBody = { tool: string } & Record<string, unknown>

/** What parsing a call needs of the server. */
export type CallRequestDeps = Pick<FastifyInstance, 'services' | 'limits'>

/** Returns the call of a request with its fields. */
export function parseCallRequest(
  { services }: CallRequestDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  given: ToolCallBody,
): CallRequest {
  // `dry_run` is read already and is no field of the tool.
  const { dry_run: _heard, ...rest } = given
  const body: ToolCallBody = { ...rest, tool: given.tool }
  if (request.bodyBytes > LIMITS.bodyBytes && !LARGE_BODY_TOOLS.has(body.tool)) {
    throw bodyTooLargeError(LIMITS.bodyBytes, `The body of ${body.tool}`)
  }
  return { ...toBaseCallRequest(request, reply), tool: slugOf(services.catalogue, body.tool), body }
}

/** Validates the shape of a batch. Each of its calls counts against the caller's rate limit. */
export async function parsePipelineRequest(
  { services, limits }: CallRequestDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  batch: unknown,
): Promise<ToolCallBatchRequest> {
  const maxCalls = LIMITS.pipelineCalls
  if (((request.body as ToolCallBody)['dry_run'] ?? false) !== false)
    throw invalidInputError(
      '/dry_run',
      'is not supported for batches: use /api/quote for each call',
    )
  if (!Array.isArray(batch) || batch.length === 0 || batch.length > maxCalls)
    throw invalidInputError('/calls', `must be a list of 1 to ${maxCalls} calls`)
  const named = (batch as unknown[]).map((one, at) => {
    if (!isCall(one)) throw invalidInputError(`/calls/${at}/tool`, 'must name a tool')
    return { ...one, tool: slugOf(services.catalogue, one.tool) }
  })
  await limits.consume(request, reply, 'refuel', named.length - 1)
  const { tool: _tool, body: _body, ...shared } = toBaseCallRequest(request, reply)
  return { ...shared, calls: named }
}

const isCall = (one: unknown): one is ToolCallBody =>
  typeof one === 'object' && one !== null && typeof (one as ToolCallBody).tool === 'string'

/** Returns the slug as the catalogue spells it. An unknown slug is refused by the call itself. */
const slugOf = (catalogue: Pick<ToolCatalogue, 'find'>, tool: string): string =>
  catalogue.find(tool)?.slug ?? tool

const NO_REFUND = async () => {}

/**
 * Limits the crews that an agent starts per minute. A failed crew counts: it is refunded, but its members
 * were called. One that is refused before its start, or answered from the idempotency store, does not count.
 */
export const createCrewRateLimit =
  (limits: RequestRateLimiter, agentId: string | null): NonNullable<CallRequest['takeRateToken']> =>
  async (slug) => {
    if (agentId === null || slug !== 'crew') return NO_REFUND
    await limits.consumeForAgent(agentId, 'crew')
    return () => limits.refundForAgent(agentId, 'crew')
  }

/** Returns the part of a call that is common to all tools: caller, limits, privacy and deadline. */
export function toBaseCallRequest(request: FastifyRequest, reply: FastifyReply): CallRequest {
  const key = parseIdempotencyKey(request)
  return {
    tool: '',
    body: {},
    caller: request.caller,
    taskId: parseTaskIdHeader(request),
    backpackId: resolveRequestBackpackId(request),
    ghost: parseGhostModeHeader(request),
    idempotency: key === null ? null : { key, hash: fingerprintRequest(request) },
    door: toRequestPaymentContext(request),
    signal: createDisconnectSignal(reply),
    requestId: request.id,
    takeRateToken: createCrewRateLimit(request.server.limits, request.caller.agentId),
  }
}

/** Returns the task named in the request's header, if any. */
export function parseTaskIdHeader({ headers }: FastifyRequest): string | null {
  const id = headers['x-task-id']
  if (id === undefined) return null
  if (isPathId(id)) return id
  throw invalidInputError('/headers/x-task-id', 'must be the id of a task')
}

function parseGhostModeHeader({ headers }: FastifyRequest): CallRequest['ghost'] {
  switch (headers['x-ghost-mode']) {
    case undefined:
      return 'off'
    case 'stealth':
    case 'shadow':
      return 'stealth'
    case 'observe':
      return 'observe'
    default:
      throw invalidInputError('/headers/x-ghost-mode', 'must be stealth, observe or shadow')
  }
}

/** Returns a signal that aborts when the caller disconnects before the reply. */
function createDisconnectSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort(new ServiceError('cancelled'))
  })
  return gone.signal
}

/** Sends the reply of a call with its payment headers. */
export function sendCallReply(reply: FastifyReply, { status, body, headers, replayed }: CallReply) {
  reply.headers(headers)
  if (replayed) reply.header('idempotency-replayed', 'true')
  reply.code(status)
  // A stored refusal is sent as a problem document too.
  if (status >= 400) reply.type('application/problem+json').serializer(JSON.stringify)
  return body
}
