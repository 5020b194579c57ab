import type { ServerResponse } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type {
  CallerConnection,
  CallReply,
  CallRequest,
  ToolCallBatchRequest,
} from '../calls/call-request-and-reply-types.ts'
import { invalidInputError, ServiceError } from '../core/errors.ts'
import { toExactJson } from '../core/json/exact.ts'
import { LIMITS } from '../core/limits.ts'
import type { ToolCatalogue } from '../tools/tool-catalogue.ts'
import { resolveRequestBackpackId } from './auth/request-backpack-and-key-binding-check.ts'
import { bodyTooLargeError } from './plugins/body-parser.ts'
import { toRequestPaymentContext } from './request-payment-context.ts'
import { fingerprintToolCall, parseIdempotencyKey } from './http-idempotency-keys.ts'
import type { RequestRateLimiter } from './plugins/http-request-rate-limits.ts'
import { isPathId } from './schemas/shared-schemas.ts'

/** Parses HTTP requests into tool calls, and sends their replies. */

const LARGE_BODY_TOOLS = new Set(['code_sandbox', 'code-sandbox'])

/** Body of a call: the tool's slug, with the tool's fields beside it. */
export type ToolCallBody = { tool: string } & Record<string, unknown>

/** What parsing a call needs of the server. */
export type ParseToolCallRequestDeps = Pick<FastifyInstance, 'services' | 'limits'>

/** Returns the call of a request with its fields. */
export function parseToolCallRequest(
  { services }: ParseToolCallRequestDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  given: ToolCallBody,
): CallRequest {
  // `dry_run` is read already and is no field of the tool.
  const body = given['dry_run'] === undefined ? given : withoutDryRun(given)
  if (request.bodyBytes > LIMITS.bodyBytes && !LARGE_BODY_TOOLS.has(body.tool)) {
    throw bodyTooLargeError(LIMITS.bodyBytes, `The body of ${body.tool}`)
  }
  return toToolCallRequest(request, reply, slugOf(services.catalogue, body.tool), body)
}

function withoutDryRun({ dry_run: _heard, tool, ...rest }: ToolCallBody): ToolCallBody {
  return { ...rest, tool }
}

/** Validates the shape of a batch. Each of its calls counts against the caller's rate limit. */
export async function parsePipelineRequest(
  { services, limits }: ParseToolCallRequestDeps,
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
export const toBaseCallRequest = (request: FastifyRequest, reply: FastifyReply): CallRequest =>
  toToolCallRequest(request, reply, '', {})

function toToolCallRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  tool: string,
  body: Record<string, unknown>,
): CallRequest {
  const key = parseIdempotencyKey(request)
  return {
    tool,
    body,
    caller: request.caller,
    taskId: parseTaskIdHeader(request),
    backpackId: resolveRequestBackpackId(request),
    ghost: toGhostMode(request.headers['x-ghost-mode'], '/headers/x-ghost-mode'),
    idempotency: key === null ? null : { key, hash: fingerprintToolCall(request) },
    door: toRequestPaymentContext(request),
    connection: toCallerConnection(reply),
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

/** Returns the ghost mode of a header or field; throws 400 for an unknown one. */
export function toGhostMode(mode: unknown, pointer: string): CallRequest['ghost'] {
  switch (mode) {
    case undefined:
      return 'off'
    case 'stealth':
    case 'shadow':
      return 'stealth'
    case 'observe':
      return 'observe'
    default:
      throw invalidInputError(pointer, 'must be stealth, observe or shadow')
  }
}

/** Returns the connection that a reply is sent on. */
export const toCallerConnection = ({ raw }: FastifyReply): CallerConnection =>
  new HttpCallerConnection(raw)

/** The connection of a request. It counts as closed when it closes before the reply is sent. */
class HttpCallerConnection implements CallerConnection {
  readonly #response: ServerResponse
  #controller: AbortController | null = null

  constructor(response: ServerResponse) {
    this.#response = response
  }

  get closed(): boolean {
    return this.#response.destroyed && !this.#response.writableFinished
  }

  get closeSignal(): AbortSignal {
    const known = this.#controller
    if (known !== null) return known.signal
    const controller = (this.#controller = new AbortController())
    const abortIfClosed = () => {
      if (this.closed) controller.abort(new ServiceError('cancelled'))
    }
    abortIfClosed()
    this.#response.once('close', abortIfClosed)
    return controller.signal
  }
}

/** Sends the reply of a call with its payment headers. */
export function sendCallReply(reply: FastifyReply, { status, body, headers, replayed }: CallReply) {
  reply.headers(headers)
  if (replayed) reply.header('idempotency-replayed', 'true')
  reply.code(status)
  // A stored refusal is sent as a problem document too.
  if (status >= 400) reply.type('application/problem+json').serializer(toExactJson)
  return body
}
