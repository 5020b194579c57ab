import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { CallReply, CallRequest, PipelineRequest } from '../calls/calls.ts'
import { invalid, ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { Catalogue } from '../tools/catalogue.ts'
import { backpackOf } from './binding.ts'
import { tooLarge } from './body.ts'
import { doorOf } from './door.ts'
import { fingerprint, idempotencyKey } from './idempotency.ts'
import type { Limits } from './plugins/rate-limits.ts'
import { isId } from './schemas.ts'

const LARGE_BODIED = new Set(['code_sandbox', 'code-sandbox'])

/** The body of a call: its tool, and the fields of the tool beside it. */
export type CallBody = { tool: string } & Record<string, unknown>

/** What reading a call takes of a server. */
export type CallDesk = Pick<FastifyInstance, 'services' | 'limits'>

/** The call that a request asks for, with the fields it gives. */
export function callOf(
  { services }: CallDesk,
  request: FastifyRequest,
  reply: FastifyReply,
  given: CallBody,
): CallRequest {
  // What asks for a quote has been heard: it is no field.
  const { dry_run: _heard, ...rest } = given
  const body: CallBody = { ...rest, tool: given.tool }
  if (request.bodyBytes > LIMITS.bodyBytes && !LARGE_BODIED.has(body.tool)) {
    throw tooLarge(LIMITS.bodyBytes, `The body of ${body.tool}`)
  }
  return { ...frame(request, reply), tool: slugOf(services.catalogue, body.tool), body }
}

/** Checks the shape of a batch; each of its calls draws on the rate of its caller. */
export async function batchOf(
  { services, limits }: CallDesk,
  request: FastifyRequest,
  reply: FastifyReply,
  batch: unknown,
): Promise<PipelineRequest> {
  const most = LIMITS.pipelineCalls
  if (((request.body as CallBody)['dry_run'] ?? false) !== false)
    throw invalid('/dry_run', 'is not for batches: ask /api/quote for each call')
  if (!Array.isArray(batch) || batch.length === 0 || batch.length > most)
    throw invalid('/calls', `must be a list of 1 to ${most} calls`)
  const named = (batch as unknown[]).map((one, at) => {
    if (!isCall(one)) throw invalid(`/calls/${at}/tool`, 'must name a tool')
    return { ...one, tool: slugOf(services.catalogue, one.tool) }
  })
  await limits.draw(request, reply, 'refuel', named.length - 1)
  const { tool: _tool, body: _body, ...shared } = frame(request, reply)
  return { ...shared, calls: named }
}

const isCall = (one: unknown): one is CallBody =>
  typeof one === 'object' && one !== null && typeof (one as CallBody).tool === 'string'

/** A slug as the catalogue spells it; an unknown one is refused by the call itself. */
const slugOf = (catalogue: Pick<Catalogue, 'find'>, tool: string): string =>
  catalogue.find(tool)?.slug ?? tool

const NO_TURN = async () => {}

/**
 * Crews that an agent begins a minute. One that fails counts: it is paid back, and what it asked of
 * others was asked all the same. One that is refused before it begins, or answered from memory, does not.
 */
export const paceOf =
  (limits: Limits, agentId: string | null): NonNullable<CallRequest['pace']> =>
  async (slug) => {
    if (agentId === null || slug !== 'crew') return NO_TURN
    await limits.drawAgent(agentId, 'crew')
    return () => limits.giveBackAgent(agentId, 'crew')
  }

/** Everything of a call that is not the tool's: who, under which limits, how private, how long. */
export function frame(request: FastifyRequest, reply: FastifyReply): CallRequest {
  const key = idempotencyKey(request)
  return {
    tool: '',
    body: {},
    caller: request.caller,
    taskId: taskHeader(request),
    backpackId: backpackOf(request),
    ghost: ghostHeader(request),
    idempotency: key === null ? null : { key, hash: fingerprint(request) },
    door: doorOf(request),
    signal: goneSignal(reply),
    requestId: request.id,
    pace: paceOf(request.server.limits, request.caller.agentId),
  }
}

/** The task a request names in its header, if any. */
export function taskHeader({ headers }: FastifyRequest): string | null {
  const id = headers['x-task-id']
  if (id === undefined) return null
  if (isId(id)) return id
  throw invalid('/headers/x-task-id', 'must be the id of a task')
}

function ghostHeader({ headers }: FastifyRequest): CallRequest['ghost'] {
  switch (headers['x-ghost-mode']) {
    case undefined:
      return 'off'
    case 'stealth':
    case 'shadow':
      return 'stealth'
    case 'observe':
      return 'observe'
    default:
      throw invalid('/headers/x-ghost-mode', 'must be stealth, observe or shadow')
  }
}

/** Aborts when the caller hangs up before it has its answer. */
function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort(new ServiceError('cancelled'))
  })
  return gone.signal
}

/** Sends the answer to a call, with what it says about its payment. */
export function send(reply: FastifyReply, { status, body, headers, replayed }: CallReply) {
  reply.headers(headers)
  if (replayed) reply.header('idempotency-replayed', 'true')
  reply.code(status)
  // A kept refusal is a problem like any other.
  if (status >= 400) reply.type('application/problem+json').serializer(JSON.stringify)
  return body
}
