import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { addressBounds, type CallerAddress } from '../../core/address-bounds.ts'
import { SECOND } from '../../core/clock.ts'
import { createSharedRoom } from '../../core/concurrency/shared-room.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { errorResponses } from '../schemas/shared-schemas.ts'
import { toStationStatsView } from '../schemas/statistics-schemas.ts'
import { LastEventIdQuerySchema } from '../stream-api-key-and-cursor.ts'
import { onReplyClosed, openSseStream, type SseStream } from './sse-stream.ts'

/** The stream of the station's figures as server-sent events (decision 43). */

const INTERVAL_MS = 2 * SECOND
/** When a stream that gave way asks again. */
const RETRY_MS = 60 * SECOND

const streamStats = {
  config: { auth: 'none' } as const,
  // A HEAD request of a stream would never begin and never end.
  exposeHeadRoute: false,
  schema: {
    operationId: 'streamStats',
    summary: 'Stream the figures of the station as server-sent events',
    description: `Sends \`stats\` at once, then when a figure has changed, every two seconds at most. ${LIMITS.statsStreamsPerAddress} streams an address, and ${LIMITS.statsStreamsPerAddress * LIMITS.ipv6SiteFactor} an IPv6 /48. When all ${LIMITS.statsStreams} are open, the oldest of whoever has the most ends with a later \`retry\`.`,
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
  const takePlace = createStreamPlaces()
  let timer: NodeJS.Timeout | undefined
  let sent = ''

  app.get('/api/stats/live', streamStats, async (request, reply) => {
    let stream: SseStream | null = null
    let gaveWay = false
    const leave = takePlace(request.caller, () => {
      gaveWay = true
      stream?.write(`retry: ${RETRY_MS}\n\n`)
      stream?.end()
    })
    const stats = await readStats().catch((error: unknown) => {
      leave()
      throw error
    })
    if (gaveWay || reply.raw.destroyed || request.raw.socket.destroyed) {
      leave()
      if (gaveWay) throw tooManyError(LIMITS.statsStreams)
      return reply.hijack() as never
    }
    const opened = openSseStream(reply, { resumes: true })
    stream = opened
    readers.add(opened)
    onReplyClosed(reply, () => {
      leave()
      readers.delete(opened)
      if (readers.size === 0) stopTimer()
    })
    opened.send('stats', stats)
    timer ??= setInterval(() => void broadcast(), INTERVAL_MS)
    return reply as never
  })

  app.addHook('preClose', async () => {
    stopTimer()
    for (const stream of readers) stream.end()
  })

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

/** Counts opened and opening streams of addresses and networks. */
function createStreamPlaces() {
  const room = createSharedRoom(LIMITS.statsStreams)
  const open = new Map<string, number>()

  /** Takes a place before anything is awaited: streams that open together count each other. */
  return (caller: CallerAddress, giveWay: () => void): (() => void) => {
    const counted = addressBounds(caller).filter((one) => one !== undefined)
    for (const { id, factor } of counted) {
      const most = LIMITS.statsStreamsPerAddress * factor
      if ((open.get(id) ?? 0) >= most) throw tooManyError(most)
    }
    const release = room.take(caller.siteId ?? caller.visitorId, 1, () => {
      leave()
      giveWay()
    })
    if (release === null) throw tooManyError(LIMITS.statsStreams)
    for (const { id } of counted) open.set(id, (open.get(id) ?? 0) + 1)
    let left = false
    function leave(): void {
      if (left) return
      left = true
      release?.()
      for (const { id } of counted) {
        const others = (open.get(id) ?? 1) - 1
        if (others > 0) open.set(id, others)
        else open.delete(id)
      }
    }
    return leave
  }
}

const tooManyError = (limit: number): ServiceError =>
  new ServiceError('limit_reached', {
    limit,
    detail: 'Too many streams of figures are open; read GET /api/stats instead.',
  })
