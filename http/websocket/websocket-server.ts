import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import websocket from '@fastify/websocket'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import { Type } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { extractApiKey } from '../auth/request-api-key-extraction.ts'
import { toRawProblemResponse } from '../plugins/socket-client-error-handler.ts'
import { errorResponses } from '../schemas/shared-schemas.ts'
import { WS_CLOSE_CODES, WS_SUBPROTOCOL } from './websocket-frames-from-clients.ts'
import { acquireApiKeyStreamSlot, type ApiKeyStreamSlot } from './websocket-stream-slot.ts'
import { openWebSocketSession } from './open-websocket-session.ts'
import { createNonWebSocketUpgradeIgnorer } from './separate-websocket-from-other-upgrades.ts'

/** WebSocket endpoint: upgrades, slots and shutdown. */

/** A client must answer a close within this time before its connection is cut off. */
const SOCKET_DRAIN_TIMEOUT_MS = 2_000
const BUFFER_RECHECK_MS = 20

/** Register it before the routes: they must recognise an upgrade. */
export async function installWebSockets(app: FastifyInstance): Promise<void> {
  const upgrades = createNonWebSocketUpgradeIgnorer(app.server as Server)
  // Nothing else ends the connection of a refused upgrade.
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
      request.log.info({ reqId: request.id, err: error }, 'a socket failed')
      socket.terminate()
    },
    preClose: () => drainWebSockets(app),
  })
  nameUpgrades(app)
}

/** Names the request in the answers that the WebSocket library writes: 101, and refused handshakes. */
function nameUpgrades(app: FastifyInstance): void {
  const ids = new WeakMap<IncomingMessage, string>()
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.ws) ids.set(request.raw, request.id)
    done()
  })
  app.websocketServer.on('headers', (headers, request) => {
    headers.push(`X-Request-Id: ${ids.get(request) ?? randomUUID()}`)
  })
  app.websocketServer.on(
    'wsClientError',
    (error: Error, socket: Duplex, request: IncomingMessage) => {
      const id = ids.get(request) ?? randomUUID()
      const refusal = new ServiceError('invalid_input', { detail: `${error.message}.` })
      const version = 'Sec-WebSocket-Version: 13\r\n'
      socket.once('finish', () => socket.destroy())
      socket.end(toRawProblemResponse(refusal, app.services.config, id, version))
    },
  )
}

/** Ends every stream and waits for the sockets to close; terminates those that do not answer. */
async function drainWebSockets({
  services,
  websocketServer,
  server,
}: FastifyInstance): Promise<void> {
  server.removeAllListeners('upgrade')
  services.realtime.drain()
  // Includes sockets that have not authenticated.
  for (const socket of websocketServer.clients) socket.close(WS_CLOSE_CODES.restart)
  for (
    let remainingChecks = SOCKET_DRAIN_TIMEOUT_MS / BUFFER_RECHECK_MS;
    remainingChecks > 0 && websocketServer.clients.size > 0;
    remainingChecks--
  )
    await new Promise((resolve) => setTimeout(resolve, BUFFER_RECHECK_MS))
  for (const socket of websocketServer.clients) socket.terminate()
  websocketServer.close()
}

const openSocket = {
  config: { auth: 'optional', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'openSocket',
    summary: 'Open a WebSocket for your events, signals, pulses and publishing',
    description:
      'Subprotocol `gas.v1`, JSON text frames. Send the key in a header of the upgrade or in the first frame, `hello`, never in the URL. Frames, cursors and close codes: docs/realtime.md.',
    tags: ['signals'],
    response: {
      101: Type.Null({ description: 'The connection speaks gas.v1 from here on.' }),
      ...errorResponses,
    },
  },
}

declare module 'fastify' {
  interface FastifyRequest {
    seat: ApiKeyStreamSlot | null
  }
}

/** The WebSocket of an agent (decision 44). */
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

/** Throws for too many streams of a key while the response is still HTTP. */
function acquireSlotBeforeUpgrade({ services }: FastifyInstance, request: FastifyRequest): void {
  const { apiKey } = request
  const secret = apiKey === null || !request.ws ? null : extractApiKey(request)
  if (apiKey === null || secret === null) return
  request.seat = acquireApiKeyStreamSlot(services, request.raw.socket, apiKey, secret)
}
