import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { invalid, problem, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { channelNamed, demandReadable, PULSES } from '../../realtime/channels.ts'
import { signalEvent } from '../../realtime/views.ts'
import { credentialsOf } from '../credentials.ts'
import { expected } from '../plugins/problems.ts'
import { failures } from '../schemas.ts'
import { EVENTS_HEARTBEAT_MS, onceGone, openStream, type EventStream } from '../sse.ts'
import { CURSOR_TEXT, lastEventId, streamKey } from './keys.ts'

const streamSignals = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  // It would never end, and never begin: a stream has no head of its own.
  exposeHeadRoute: false,
  schema: {
    operationId: 'streamSignals',
    summary: 'Signals of some channels as server-sent events, from a cursor on',
    tags: ['signals'],
    querystring: Type.Object({
      channels: Type.String({
        minLength: 1,
        description: `Names separated by commas, at most ${LIMITS.streamChannels}.`,
      }),
      since: Type.Optional(
        Type.String({
          pattern: CURSOR_TEXT,
          description: 'The last id seen; the header Last-Event-ID wins over it.',
        }),
      ),
    }),
    response: {
      200: {
        description: '`ready` first, then `signal` and `gap`; a comment every 15 seconds.',
        content: { 'text/event-stream': { schema: Type.String() } },
      },
      ...failures,
    },
  },
}

/** The signal bus as an event stream: decision 43. */
export const signalStreamRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, keys, realtime } = app.services

  app.get('/api/signal/stream', streamSignals, async (request, reply) => {
    const channels = channelsOf(request.query.channels, request.agentId)
    // Who went while the key was looked up closes no more, and would hold a seat for good.
    if (reply.raw.destroyed || request.raw.socket.destroyed) return reply.hijack() as never
    const { signals: mark } = realtime.marks()
    const since = BigInt(lastEventId(request) ?? request.query.since ?? mark)
    let events: EventStream | null = null
    const leave = realtime.enter({
      kind: 'events',
      key: keyOf(request),
      end: (why) => {
        if (why === 'revoked') tell(events, request, new ServiceError('unauthenticated'))
        events?.end()
      },
    })
    const listening = untilGone(reply, leave)
    events = openStream(reply, { resumes: true })
    const ready = { cursor: String(since), channels, heartbeat_ms: EVENTS_HEARTBEAT_MS }
    events.send('ready', ready, since)
    follow(events, request.agentId, channels, since, listening).catch((error: unknown) => {
      const known = expected(error as never)
      if (known === null) request.log.error({ err: error }, 'a stream of signals failed')
      tell(events, request, known ?? new ServiceError('internal'))
      events?.end()
    })
    return reply as never
  })

  async function follow(
    events: EventStream,
    agentId: string,
    channels: readonly string[],
    since: bigint,
    listening: Listening,
  ): Promise<void> {
    let gaps = 0
    await realtime.replaySignals(agentId, channels, {
      since,
      // Without an id: who breaks off in the middle of the replay is told of it again.
      gap({ channel, from, to }) {
        gaps += 1
        events.send('gap', { channel, from: String(from), to: String(to) })
      },
      replay: (signal) => events.write(signalEvent(signal)),
      room: () => events.room(),
      live(mark) {
        if (gaps > 0) events.passed(mark)
        if (listening.isOver()) return
        const listener = realtime.listeners.signals(
          (told) => told.events().forEach(events.write),
          () => events.end(),
        )
        listening.add(listener.end)
        for (const channel of channels) listener.listen(channel)
      },
    })
  }

  function keyOf(request: FastifyRequest) {
    if (request.apiKey === null) throw new ServiceError('unauthenticated')
    return streamKey(request.apiKey, credentialsOf(request) ?? '', keys)
  }

  function tell(events: EventStream | null, request: FastifyRequest, error: ServiceError): void {
    events?.send('error', problem(error, config, `urn:request:${request.id}`))
  }
}

/** What has to be ended with a stream. */
interface Listening {
  add(stop: () => void): void
  isOver(): boolean
}

function untilGone(reply: FastifyReply, leave: () => void): Listening {
  const stops = [leave]
  let over = false
  onceGone(reply, () => {
    over = true
    for (const stop of stops) stop()
  })
  return { add: (stop) => void stops.push(stop), isOver: () => over }
}

/** The channels a reader asks for; refuses too many, and what it may not read. */
function channelsOf(list: string, agentId: string): string[] {
  const names = list.split(',').map((name) => name.trim())
  if (names.length > LIMITS.streamChannels)
    throw invalid('/channels', `must be at most ${LIMITS.streamChannels} channels`)
  const channels = names.map((name) => channelNamed(name, agentId, '/channels'))
  for (const channel of channels) {
    if (channel === PULSES) throw invalid('/channels', 'has pulses, which only the socket carries')
    demandReadable(channel, agentId)
  }
  return [...new Set(channels)]
}
