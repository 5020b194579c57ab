import type { Server } from 'node:http'
import websocket from '@fastify/websocket'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import { Type } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { credentialsOf } from '../credentials.ts'
import { failures } from '../schemas.ts'
import { CLOSE, SUBPROTOCOL } from './frames.ts'
import { takeSeat, type Seat } from './seat.ts'
import { openSession } from './session.ts'
import { webSocketUpgrades } from './upgrades.ts'

/** A client has so long to answer the close before its connection is cut. */
const DRAIN_MS = 2_000
const LOOK_MS = 20

/** Register it before the routes: they must know an upgrade from a request. */
export async function installWebSockets(app: FastifyInstance): Promise<void> {
  const upgrades = webSocketUpgrades(app.server as Server)
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
      handleProtocols: (offered) => offered.has(SUBPROTOCOL) && SUBPROTOCOL,
    },
    errorHandler: (error, socket, request) => {
      request.log.info({ err: error }, 'a socket failed')
      socket.terminate()
    },
    preClose: () => drain(app),
  })
}

/** Ends every stream, and waits for the sockets to be gone; whoever does not answer is cut off. */
async function drain({ services, websocketServer, server }: FastifyInstance): Promise<void> {
  server.removeAllListeners('upgrade')
  services.realtime.drain()
  // Sockets that have not said who they are too.
  for (const socket of websocketServer.clients) socket.close(CLOSE.restart)
  for (let looks = DRAIN_MS / LOOK_MS; looks > 0 && websocketServer.clients.size > 0; looks--)
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
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
      ...failures,
    },
  },
}

declare module 'fastify' {
  interface FastifyRequest {
    seat: Seat | null
  }
}

/** The socket of an agent: decision 44. */
export const socketRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.decorateRequest('seat', null)
  app.route({
    method: 'GET',
    url: '/api/ws',
    exposeHeadRoute: false,
    ...openSocket,
    preValidation: async (request) => sit(app, request),
    handler: () => {
      throw new ServiceError('upgrade_required')
    },
    wsHandler: (socket: WebSocket, request: FastifyRequest) =>
      openSession(app, socket, request, request.seat),
  })
}

/** A sixth stream of a key is refused while it still is an HTTP answer. */
function sit({ services }: FastifyInstance, request: FastifyRequest): void {
  const { apiKey } = request
  const secret = apiKey === null || !request.ws ? null : credentialsOf(request)
  if (apiKey === null || secret === null) return
  request.seat = takeSeat(services, request.raw.socket, apiKey, secret)
}
