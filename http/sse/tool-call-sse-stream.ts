import type { FastifyReply, FastifyRequest } from 'fastify'
import type {
  CallReply,
  CallRequest,
  CallService,
  ToolCallBatchRequest,
} from '../../calls/call-request-and-reply-types.ts'
import { invalidInputError } from '../../core/errors.ts'
import {
  parsePipelineRequest,
  parseToolCallRequest,
  type ToolCallBody,
  type ParseToolCallRequestDeps,
} from '../http-tool-call-request.ts'
import { openSseStream, type SseStream } from './sse-stream.ts'

/** Runs a call or a batch and streams its output as events; a dry run returns a quote. */
export async function streamCallOverSse(
  deps: ParseToolCallRequestDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  body: ToolCallBody,
): Promise<FastifyReply> {
  const { calls, catalogue, realtime } = deps.services
  const isBatch = body.tool === 'pipeline' && catalogue.find(body.tool) === undefined
  if (body['dry_run'] === true && !isBatch) {
    return reply.send(await calls.quote(parseToolCallRequest(deps, request, reply, body)))
  }
  const batch = isBatch ? await parsePipelineRequest(deps, request, reply, body['calls']) : null
  const callRequest = batch ?? parseToolCallRequest(deps, request, reply, body)
  assertRepeatable(request, callRequest, callRequest.door.paymentHeader !== null)
  const { key, agentId, visitorId, siteId } = request.caller
  const leave = realtime.count({ id: key?.id ?? visitorId, agentId, siteId })
  try {
    await sendEvents(calls, reply, callRequest)
  } finally {
    leave()
  }
  return reply
}

/**
 * Throws for a reconnect with `Last-Event-ID` without an Idempotency-Key or a payment: the call would run and
 * be charged again.
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

/** Returns frame ids: the id of the call, or of the request for a batch, and a counter. */
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
  callRequest: CallRequest | ToolCallBatchRequest,
): Promise<void> {
  let events: SseStream | undefined
  const opened = (replayed: boolean, headers: CallReply['headers'] = {}) => {
    reply.headers(headers)
    if (replayed) reply.header('idempotency-replayed', 'true')
    events ??= openSseStream(reply, { resumes: false })
  }
  const idOf = frameIds(callRequest.requestId)
  const emit = (event: string, data: unknown) => {
    const id = idOf(event, data)
    // A slow reader misses progress events, never results.
    if (event === 'progress' && events?.isBehind() === true) return
    events?.send(event, data, id)
  }
  // Before the stream opens, a refusal is an ordinary response; after that it is an event.
  const work =
    'calls' in callRequest
      ? calls.streamPipeline(callRequest, emit, opened)
      : calls.stream(callRequest, emit, opened)
  await work.finally(() => events?.end())
  // Holds the slot while unread data is buffered for the reader.
  await events?.closed
}
