import type { FastifyReply, FastifyRequest } from 'fastify'
import type {
  CallReply,
  CallRequest,
  CallService,
  PipelineRequest,
} from '../../calls/call-types.ts'
import { invalidInputError } from '../../core/errors.ts'
import {
  parsePipelineRequest,
  parseCallRequest,
  type ToolCallBody,
  type CallRequestDeps,
} from '../call-request.ts'
import { openSseStream, type SseStream } from './sse-stream.ts'

/** Makes a call, or a batch of calls, whose output is sent as events; a dry run is a quote. */
export async function streamCallOverSse(
  deps: CallRequestDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  body: ToolCallBody,
): Promise<FastifyReply> {
  const { calls, catalogue, paying, realtime } = deps.services
  const isBatch = body.tool === 'pipeline' && catalogue.find(body.tool) === undefined
  if (body['dry_run'] === true && !isBatch) {
    return reply.send(await calls.quote(parseCallRequest(deps, request, reply, body)))
  }
  const batch = isBatch ? await parsePipelineRequest(deps, request, reply, body['calls']) : null
  const asked = batch ?? parseCallRequest(deps, request, reply, body)
  assertRepeatable(request, asked, paying.hasPayment(asked.door))
  const { key, agentId, visitorId } = request.caller
  const leave = realtime.count({ id: key?.id ?? visitorId, agentId })
  try {
    await sendEvents(calls, reply, asked)
  } finally {
    leave()
  }
  return reply
}

/**
 * Refuses a reader that comes back with `Last-Event-ID` when nothing names the call it was reading: it
 * would be made and paid for again. Its Idempotency-Key or its payment gets the answer once more.
 */
function assertRepeatable(
  { headers }: FastifyRequest,
  { idempotency }: Pick<CallRequest, 'idempotency'>,
  isPaid: boolean,
): void {
  if (headers['last-event-id'] === undefined || idempotency !== null || isPaid) return
  throw invalidInputError(
    '/headers/last-event-id',
    'needs the Idempotency-Key of the call that was read: without it this would be another call',
  )
}

/** Ids of the frames of one call: the id of the call, or of its request for a batch, and a number. */
function frameIds(requestId: string): (event: string, data: unknown) => string {
  let [stem, count] = [requestId, 0]
  return (event, data) => {
    const { call_id: callId } = data as { call_id?: unknown }
    if (event === 'start' && typeof callId === 'string') stem = callId
    count += 1
    return `${stem}:${count}`
  }
}

async function sendEvents(
  calls: CallService,
  reply: FastifyReply,
  asked: CallRequest | PipelineRequest,
): Promise<void> {
  let events: SseStream | undefined
  const opened = (replayed: boolean, headers: CallReply['headers'] = {}) => {
    reply.headers(headers)
    if (replayed) reply.header('idempotency-replayed', 'true')
    events ??= openSseStream(reply, { resumes: false })
  }
  const idOf = frameIds(asked.requestId)
  const emit = (event: string, data: unknown) => {
    const id = idOf(event, data)
    // A reader that is behind misses steps, never what they led to.
    if (event === 'progress' && events?.isBehind() === true) return
    events?.send(event, data, id)
  }
  // Until the stream is open, a refusal is an ordinary answer; after that it is an event of it.
  const work =
    'calls' in asked ? calls.streamPipeline(asked, emit, opened) : calls.stream(asked, emit, opened)
  await work.finally(() => events?.end())
  // What is not read yet is held for its reader: so is the seat.
  await events?.closed
}
