import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { errorResponses } from '../schemas/shared-schemas.ts'
import { toStationStatsView } from '../schemas/statistics-schemas.ts'
import { LastEventIdQuerySchema } from '../stream-api-key-and-cursor.ts'
import { onReplyClosed, openSseStream, type SseStream } from './sse-stream.ts'

/** The stream of the station's figures as server-sent events (decision 43). */

const INTERVAL_MS = 2 * SECOND

const streamStats = {
  config: { auth: 'none' } as const,
  // A HEAD request of a stream would never begin and never end.
  exposeHeadRoute: false,
  schema: {
    operationId: 'streamStats',
    summary: 'Stream the figures of the station as server-sent events',
    description: `Sends \`stats\` at once, then when a figure has changed, every two seconds at most. ${LIMITS.statsStreamsPerAddress} streams an address.`,
    tags: ['statistics'],
    querystring: Type.Object(LastEventIdQuerySchema),
    response: {
      200: {
        description: '`stats` events as `/api/stats` answers; a comment every 15 seconds.',
        content: { 'text/event-stream': { schema: Type.String() } },
      },
      ...errorResponses,
    },
  },
}

/** Figures are read once for all readers, and not at all without one. */
export const liveStatisticsRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { catalogue, statistics } = app.services
  const readers = new Set<SseStream>()
  /** Visitors by opened or opening stream. */
  const places = new Map<symbol, string>()
  let timer: NodeJS.Timeout | undefined
  let sent = ''

  app.get('/api/stats/live', streamStats, async (request, reply) => {
    const place = takePlace(request.caller.visitorId)
    const stats = await readStats().catch((error: unknown) => {
      places.delete(place)
      throw error
    })
    if (reply.raw.destroyed || request.raw.socket.destroyed) {
      places.delete(place)
      return reply.hijack() as never
    }
    const stream = openSseStream(reply, { resumes: true })
    readers.add(stream)
    onReplyClosed(reply, () => {
      places.delete(place)
      readers.delete(stream)
      if (readers.size === 0) stopTimer()
    })
    stream.send('stats', stats)
    timer ??= setInterval(() => void broadcast(), INTERVAL_MS)
    return reply as never
  })

  app.addHook('preClose', async () => {
    stopTimer()
    for (const stream of readers) stream.end()
  })

  /** Takes a place before anything is awaited: streams that open together count each other. */
  function takePlace(visitorId: string): symbol {
    const own = [...places.values()].filter((owner) => owner === visitorId).length
    if (own >= LIMITS.statsStreamsPerAddress || places.size >= LIMITS.statsStreams)
      throw new ServiceError('limit_reached', {
        limit:
          own >= LIMITS.statsStreamsPerAddress
            ? LIMITS.statsStreamsPerAddress
            : LIMITS.statsStreams,
        detail: 'Too many streams of figures are open; read GET /api/stats instead.',
      })
    const place = Symbol(visitorId)
    places.set(place, visitorId)
    return place
  }

  const readStats = async () =>
    toStationStatsView(await statistics.totals(), catalogue.totals().total)

  /** Sends the figures if one has changed. An unreachable database sends nothing. */
  async function broadcast(): Promise<void> {
    const stats = await readStats().catch(() => null)
    if (stats === null) return
    const { generated_at: _at, window_since: _since, ...figures } = stats
    const text = JSON.stringify(figures)
    if (text === sent) return
    sent = text
    for (const stream of readers) stream.send('stats', stats)
  }

  function stopTimer(): void {
    clearInterval(timer)
    timer = undefined
    sent = ''
  }
}
