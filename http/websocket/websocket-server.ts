import type { Server } from 'node:http'
import websocket from '@fastify/websocket'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import { Type } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { extractApiKey } from '../auth/credentials.ts'
import { errorResponses } from '../schemas/shared-schemas.ts'
import { WS_CLOSE_CODES, WS_SUBPROTOCOL } from './client-frames.ts'
import { acquireStreamSlot, type StreamSlot } from './stream-slot.ts'
import { openWebSocketSession } from './session.ts'
import { createWebSocketUpgradeFilter } from './upgrade-filter.ts'

/** A client has so long to answer the close before its connection is cut. */
const SOCKET_DRAIN_TIMEOUT_MS = 2_000
const BUFFER_RECHECK_MS = 20

/** Register it before the routes: they must know an upgrade from a request. */
export async function installWebSockets(app: FastifyInstance): Promise<void> {
  const upgrades = createWebSocketUpgradeFilter(app.server as Server)
  // A refused upgrade leaves a connection that nobody else would ever end.
  app.addHook('onResponse', (request, _reply, done) => {
    if (upgrades.isOne(request.raw)) request.raw.socket.destroySoon()
    done()
  })
  await app.register(websocket, {
    options: {
      server: upgrades.server,
      maxPayload: LIMITS.frameBytes,
      perMessageDeflate: false,
      handleProtocols: (offered) => offered.has(WS_SUBPROTOCOL) && WS_SUBPROTOCOL,
    },
    errorHandler: (error, socket, request) => {
      request.log.info({ err: error }, 'a socket failed')
      socket.terminate()
    },
    preClose: () => drainWebSockets(app),
  })
}

/** Ends every stream, and waits for the sockets to be gone; whoever does not answer is cut off. */
async function drainWebSockets({
  services,
  websocketServer,
  server,
}: FastifyInstance): Promise<void> {
  server.removeAllListeners('upgrade')
  services.realtime.drain()
  // Sockets that have not said who they are too.
  for (const socket of websocketServer.clients) socket.close(WS_CLOSE_CODES.restart)
  for (
    let looks = SOCKET_DRAIN_TIMEOUT_MS / BUFFER_RECHECK_MS;
    looks > 0 && websocketServer.clients.size > 0;
    looks--
  )
    await new Promise((resolve) => setTimeout(resolve, BUFFER_RECHECK_MS))
  for (const socket of websocketServer.clients) socket.terminate()
  websocketServer.close()
}

const openSocket = {
  config: { auth: 'optional', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'openSocket',
    summary: 'Open a WebSocket: everything addressed to you, signals, pulses, publishing',
    description:
      'Subprotocol `gas.v1`, JSON text frames. The key goes into a header of the upgrade or into the first frame, `hello`; never into the address. Frames, cursors and close codes: docs/realtime.md.',
    tags: ['signals'],
    response: {
      101: Type.Null({ description: 'The connection speaks gas.v1 from here on.' }),
      ...errorResponses,
    },
  },
}

declare module 'fastify' {
  interface FastifyRequest {
    seat: StreamSlot | null
  }
}

/** The socket of an agent: decision 44. */
export const webSocketRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.decorateRequest('seat', null)
  app.route({
    method: 'GET',
    url: '/api/ws',
    exposeHeadRoute: false,
    ...openSocket,
    preValidation: async (request) => acquireSlotBeforeUpgrade(app, request),
    handler: () => {
      throw new ServiceError('upgrade_required')
    },
    wsHandler: (socket: WebSocket, request: FastifyRequest) =>
      openWebSocketSession(app, socket, request, request.seat),
  })
}

/** A sixth stream of a key is refused while it still is an HTTP answer. */
function acquireSlotBeforeUpgrade({ services }: FastifyInstance, request: FastifyRequest): void {
  const { apiKey } = request
  const secret = apiKey === null || !request.ws ? null : extractApiKey(request)
  if (apiKey === null || secret === null) return
  request.seat = acquireStreamSlot(services, request.raw.socket, apiKey, secret)
}
