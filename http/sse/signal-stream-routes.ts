import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { toProblemDocument } from '../../core/problem-document.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  parseChannelName,
  assertChannelReadable,
  PULSES_CHANNEL,
} from '../../realtime/signal-channel-names.ts'
import { toSignalSseEvent } from '../../realtime/realtime-event-views.ts'
import { extractApiKey } from '../auth/request-api-key-extraction.ts'
import { toHttpServiceError } from '../plugins/error-handler.ts'
import { errorResponses } from '../schemas/shared-schemas.ts'
import { SSE_HEARTBEAT_MS, onReplyClosed, openSseStream, type SseStream } from './sse-stream.ts'
import {
  LastEventIdQuerySchema,
  STREAM_CURSOR_PATTERN,
  parseLastEventId,
  toApiKeyDataKeptByStream,
} from '../stream-api-key-and-cursor.ts'

/** Routes that stream signals as server-sent events (decision 43). */

const streamSignals = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  // A HEAD request of a stream would never begin and never end.
  exposeHeadRoute: false,
  schema: {
    operationId: 'streamSignals',
    summary: 'Stream signals of channels as server-sent events, from a cursor',
    tags: ['signals'],
    querystring: Type.Object({
      channels: Type.String({
        minLength: 1,
        description: `Names separated by commas, at most ${LIMITS.streamChannels}.`,
      }),
      since: Type.Optional(
        Type.String({
          pattern: STREAM_CURSOR_PATTERN,
          description: 'The last id received; the header Last-Event-ID takes precedence.',
        }),
      ),
      ...LastEventIdQuerySchema,
    }),
    response: {
      200: {
        description: '`ready` first, then `signal` and `gap`; a comment every 15 seconds.',
        content: { 'text/event-stream': { schema: Type.String() } },
      },
      ...errorResponses,
    },
  },
}

/** The signal bus as an event stream. */
export const signalStreamRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, keys, realtime } = app.services

  app.get('/api/signal/stream', streamSignals, async (request, reply) => {
    const channels = parseChannelList(request.query.channels, request.agentId)
    // A reader that disconnected during the key lookup emits no further close, and would hold its slot
    // forever.
    if (reply.raw.destroyed || request.raw.socket.destroyed) return reply.hijack() as never
    const { signals: mark } = realtime.marks()
    const since = BigInt(parseLastEventId(request) ?? request.query.since ?? mark)
    let events: SseStream | null = null
    const leave = realtime.enter({
      kind: 'events',
      key: keyOf(request),
      end: (why) => {
        if (why === 'revoked') sendFailure(events, request, new ServiceError('unauthenticated'))
        events?.end()
      },
    })
    const listening = createStreamCleanup(reply, leave)
    events = openSseStream(reply, { resumes: true })
    const ready = { cursor: String(since), channels, heartbeat_ms: SSE_HEARTBEAT_MS }
    events.send('ready', ready, since)
    follow(events, request.agentId, channels, since, listening).catch((error: unknown) => {
      const known = toHttpServiceError(error as never)
      if (known === null)
        request.log.error({ reqId: request.id, err: error }, 'a stream of signals failed')
      sendFailure(events, request, known ?? new ServiceError('internal'))
      events?.end()
    })
    return reply as never
  })

  async function follow(
    events: SseStream,
    agentId: string,
    channels: readonly string[],
    since: bigint,
    listening: StreamCleanup,
  ): Promise<void> {
    let gaps = 0
    await realtime.replaySignals(agentId, channels, {
      since,
      // Without an id, so that a reader that disconnects during the replay gets the gap again.
      onGap({ channel, from, to }) {
        gaps += 1
        events.send('gap', { channel, from: String(from), to: String(to) })
      },
      onRow: (signal) => events.write(toSignalSseEvent(signal)),
      waitForRoom: () => events.waitForRoom(),
      onLive(mark) {
        if (gaps > 0) events.sendCursor(mark)
        if (listening.isOver()) return
        const listener = realtime.listeners.signals(
          (encoded) => encoded.events().forEach(events.write),
          () => events.end(),
        )
        listening.add(listener.end)
        for (const channel of channels) listener.listen(channel)
      },
    })
  }

  function keyOf(request: FastifyRequest) {
    if (request.apiKey === null) throw new ServiceError('unauthenticated')
    return toApiKeyDataKeptByStream(request.apiKey, extractApiKey(request) ?? '', keys)
  }

  function sendFailure(
    events: SseStream | null,
    request: FastifyRequest,
    error: ServiceError,
  ): void {
    events?.send('error', toProblemDocument(error, config, `urn:request:${request.id}`))
  }
}

/** What has to be released with a stream. */
interface StreamCleanup {
  add(stop: () => void): void
  isOver(): boolean
}

function createStreamCleanup(reply: FastifyReply, leave: () => void): StreamCleanup {
  const stops = [leave]
  let over = false
  onReplyClosed(reply, () => {
    over = true
    for (const stop of stops) stop()
  })
  return { add: (stop) => void stops.push(stop), isOver: () => over }
}

/** Returns the requested channels; throws for too many, and for one that the agent may not read. */
function parseChannelList(list: string, agentId: string): string[] {
  const names = list.split(',').map((name) => name.trim())
  if (names.length > LIMITS.streamChannels)
    throw invalidInputError('/channels', `must be at most ${LIMITS.streamChannels} channels`)
  const channels = names.map((name) => parseChannelName(name, agentId, '/channels'))
  for (const channel of channels) {
    if (channel === PULSES_CHANNEL)
      throw invalidInputError('/channels', 'contains pulses, which are sent over WebSocket only')
    assertChannelReadable(channel, agentId)
  }
  return [...new Set(channels)]
}
