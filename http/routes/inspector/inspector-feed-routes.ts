import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import { ServiceError } from '../../../core/errors.ts'
import { LIMITS } from '../../../core/limits.ts'
import { assertSameOrigin } from '../../auth/same-origin-check.ts'
import { parseInspectorFilter } from '../../inspector/inspector-filter.ts'
import { startInspectorWatcher } from '../../inspector/inspector-watcher.ts'
import { createSharedInspectorStepFrames } from '../../inspector/shared-inspector-step-frames.ts'
import { startWebSocketHeartbeat } from '../../websocket/websocket-heartbeat.ts'
import { requireInspectorFeed } from '../../inspector/require-inspector-feed.ts'

/** The socket of the inspector: every actor and what happens to it, in the protocol of @statelyai/inspect. */

const openFeed = {
  config: { auth: 'none', rate: 'none', ignoresUnknownQuery: true } as const,
  schema: { hide: true },
}

const MAX_FRAME_CHARS = 4_096
const FRAMES_PER_SECOND = 10
const POLICY_VIOLATION = 1008

/** `GET /inspector/ws`, for the operator. */
export const inspectorFeedRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { clock, config, actorDirectory: directory, inspectorAccess: access } = services
  const framesOf = createSharedInspectorStepFrames(services.actorNames)
  let watchers = 0

  // Before the upgrade, so that a refusal is HTTP.
  async function admit(request: FastifyRequest): Promise<void> {
    requireInspectorFeed(services)
    assertSameOrigin(request, config.publicUrl)
    const { code } = request.query as { code?: unknown }
    const isOperator = access.isOperator(request)
    if (!isOperator && typeof code !== 'string')
      throw new ServiceError('unauthenticated', { detail: 'The operator token is required.' })
    if (watchers >= LIMITS.inspectorWatchers)
      throw new ServiceError('rate_limited', {
        detail: `At most ${LIMITS.inspectorWatchers} watchers may be open on a node.`,
        limit_source: 'inspector.watchers',
        limit: LIMITS.inspectorWatchers,
        retry_after: 5,
      })
    if (!isOperator) await access.redeem(request.caller, String(code))
  }

  app.route({
    method: 'GET',
    url: '/inspector/ws',
    exposeHeadRoute: false,
    ...openFeed,
    preValidation: admit,
    handler: () => {
      throw new ServiceError('upgrade_required', {
        detail: 'This address accepts WebSockets only.',
      })
    },
    wsHandler: (socket: WebSocket, request: FastifyRequest) => {
      const { inspection: feed } = services
      if (feed === null || watchers >= LIMITS.inspectorWatchers) return socket.close(1013)
      watchers += 1
      socket.once('close', () => (watchers -= 1))
      socket.on('error', () => socket.terminate())
      startWebSocketHeartbeat(socket, LIMITS.heartbeatMs)
      endWithSession(socket, access.sessionEnd(request), clock.now())
      const query = parseInspectorFilter(request.query as Record<string, unknown>)
      const log = (message: string, error: unknown) => request.log.error({ err: error }, message)
      const watcher = startInspectorWatcher(
        { clock, feed, directory, framesOf, log },
        { socket, connection: request.raw.socket },
        query,
      )
      readFilters(socket, clock, watcher.setFilter)
    },
  })
}

/** Closes the socket when the session ends that opened it; null for one without a session. */
function endWithSession(socket: WebSocket, end: number | null, now: number): void {
  if (end === null) return
  const timer = setTimeout(() => socket.close(POLICY_VIOLATION, 'the session has ended'), end - now)
  timer.unref()
  socket.once('close', () => clearTimeout(timer))
}

/** Reads `gas.filter` frames; a watcher that floods is closed. */
function readFilters(
  socket: WebSocket,
  clock: { mono(): number },
  use: (filter: ReturnType<typeof parseInspectorFilter>) => void,
): void {
  let second = 0
  let frames = 0
  function isFlood(): boolean {
    const now = Math.floor(clock.mono() / 1_000)
    if (now !== second) [second, frames] = [now, 0]
    frames += 1
    return frames > FRAMES_PER_SECOND
  }
  // Each ping is answered, also to a reader that does not read.
  socket.on('ping', () => {
    if (isFlood()) socket.terminate()
  })
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isFlood() || isBinary || data.length > MAX_FRAME_CHARS)
      return socket.close(POLICY_VIOLATION, 'too many or too long frames')
    const frame = parseFrame(data.toString('utf8'))
    if (frame?.['type'] === 'gas.filter') use(parseInspectorFilter(frame))
  })
}

function parseFrame(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null
  } catch {
    return null
  }
}
