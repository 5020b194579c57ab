import type { FastifyReply, FastifyRequest } from 'fastify'
import type { CallReply, CallRequest, Calls, PipelineRequest } from '../calls/calls.ts'
import { batchOf, callOf, type CallBody, type CallDesk } from './call-request.ts'
import { openStream, type EventStream } from './sse.ts'

/** Makes a call, or a batch of calls, whose output is sent as events; a dry run is a quote. */
export async function streamCall(
  desk: CallDesk,
  request: FastifyRequest,
  reply: FastifyReply,
  body: CallBody,
): Promise<FastifyReply> {
  const { calls, catalogue, realtime } = desk.services
  const isBatch = body.tool === 'pipeline' && catalogue.find(body.tool) === undefined
  if (body['dry_run'] === true && !isBatch) {
    return reply.send(await calls.quote(callOf(desk, request, reply, body)))
  }
  const batch = isBatch ? await batchOf(desk, request, reply, body['calls']) : null
  const { key, agentId, visitorId } = request.caller
  const leave = realtime.count({ id: key?.id ?? visitorId, agentId })
  try {
    await sendEvents(calls, reply, batch ?? callOf(desk, request, reply, body))
  } finally {
    leave()
  }
  return reply
}

async function sendEvents(
  calls: Calls,
  reply: FastifyReply,
  asked: CallRequest | PipelineRequest,
): Promise<void> {
  let events: EventStream | undefined
  const opened = (replayed: boolean, headers: CallReply['headers'] = {}) => {
    reply.headers(headers)
    if (replayed) reply.header('idempotency-replayed', 'true')
    events ??= openStream(reply, { resumes: false })
  }
  const emit = (event: string, data: unknown) => {
    // A reader that is behind misses steps, never what they led to.
    if (event === 'progress' && events?.isBehind() === true) return
    events?.send(event, data)
  }
  // Until the stream is open, a refusal is an ordinary answer; after that it is an event of it.
  const work =
    'calls' in asked ? calls.streamPipeline(asked, emit, opened) : calls.stream(asked, emit, opened)
  await work.finally(() => events?.end())
  // What is not read yet is held for its reader: so is the seat.
  await events?.closed
}
