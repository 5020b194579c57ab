import { randomUUID } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import underPressure from '@fastify/under-pressure'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, { LogController, type FastifyError, type FastifyInstance } from 'fastify'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { installBodyParser } from './plugins/body-parser.ts'
import { installAuthorisation, installAuthentication } from './plugins/auth.ts'
import { installCors } from './plugins/cors.ts'
import { installApiReference } from './plugins/api-reference.ts'
import { installHttpRequestMetrics } from './plugins/http-request-metrics.ts'
import { installOpenApi } from './plugins/openapi.ts'
import { installDatabaseOutageGuard } from './plugins/database-outage-guard.ts'
import {
  toHttpServiceError,
  installErrorHandler,
  sendProblemDetails,
} from './plugins/error-handler.ts'
import { installRateLimits } from './plugins/http-request-rate-limits.ts'
import { installRequestLog, createLoggerOptions } from './plugins/request-log.ts'
import { agentProfileAndTransferRoutes } from './routes/agents/agent-profile-and-transfer-routes.ts'
import { backpackLogRoutes } from './routes/backpacks/backpack-log-routes.ts'
import { backpackRoutes } from './routes/backpacks/backpack-routes.ts'
import { bountyRoutes } from './routes/payments/bounty-routes.ts'
import { callHistoryAndReceiptRoutes } from './routes/tools/call-history-and-receipt-routes.ts'
import { clipboardRoutes } from './routes/backpacks/clipboard-routes.ts'
import { crewRoutes } from './routes/tools/crew-routes.ts'
import { creditBalanceRoutes } from './routes/payments/credit-balance-routes.ts'
import { fundPageRoutes } from './routes/payments/fund-page-routes.ts'
import { fleetMemberRemovalRoutes } from './routes/fleets/fleet-member-removal-routes.ts'
import { fleetRoutes } from './routes/fleets/fleet-routes.ts'
import { hiveMemoryRoutes } from './routes/memory/hive-memory-routes.ts'
import { healthRoutes } from './routes/service/health-routes.ts'
import { keyringSecretRoutes } from './routes/backpacks/keyring-secret-routes.ts'
import { apiKeyRoutes } from './routes/agents/api-key-routes.ts'
import { messageRoutes } from './routes/realtime/message-routes.ts'
import { onboardingRoutes } from './routes/agents/onboarding-routes.ts'
import { ownerMessageRoutes } from './routes/agents/owner-message-routes.ts'
import { topUpAndSettlementRoutes } from './routes/payments/top-up-and-settlement-routes.ts'
import { toolPlanningRoutes } from './routes/tools/tool-planning-routes.ts'
import { hallucinationPillRoutes } from './routes/tools/hallucination-pill-routes.ts'
import { errorCodeRoutes } from './routes/service/error-code-routes.ts'
import { pulseRoutes } from './routes/realtime/pulse-routes.ts'
import { radioDropRoutes } from './routes/payments/radio-drop-routes.ts'
import { referralRoutes } from './routes/agents/referral-routes.ts'
import { toolCallRoutes } from './routes/tools/tool-call-routes.ts'
import { signalRoutes } from './routes/realtime/signal-routes.ts'
import { scheduleRoutes } from './routes/tasks/schedule-routes.ts'
import { memoryPackRoutes } from './routes/memory/memory-pack-routes.ts'
import { accountStatementRoutes } from './routes/payments/account-statement-routes.ts'
import { strategyRoutes } from './routes/memory/strategy-routes.ts'
import { memoryVaultRoutes } from './routes/memory/memory-vault-routes.ts'
import { taskSessionRoutes } from './routes/tasks/task-session-routes.ts'
import { tipRoutes } from './routes/payments/tip-routes.ts'
import { toolCatalogueRoutes } from './routes/tools/tool-catalogue-routes.ts'
import { walletRoutes } from './routes/payments/wallet-routes.ts'
import { webhookDeliveryRoutes } from './routes/webhooks/webhook-delivery-routes.ts'
import { webhookRoutes } from './routes/webhooks/webhook-routes.ts'
import { apiRootRoutes } from './routes/service/api-root-routes.ts'
import type { HttpServices } from './http-services.ts'
import { discardSocketInput, installLingeringClose } from './plugins/lingering-close.ts'
import { createSocketClientErrorHandler } from './plugins/socket-client-error-handler.ts'
import { installSlowReaderTimeout } from './plugins/slow-reader-timeout.ts'
import { signalStreamRoutes } from './sse/signal-stream-routes.ts'
import { installWebSockets, webSocketRoutes } from './websocket/websocket-server.ts'
import type {} from './fastify-augmentation.ts'
import { installSchemaValidation } from './plugins/schema-validation.ts'

/** Builds the Fastify server: plugins, limits and routes. */

/** Above this share of the heap new requests get 503, so that running ones can finish. */
const MAX_HEAP_SHARE = 0.95

/** Where Fastify looks for the name of a plugin. */
const PLUGIN_NAME = Symbol.for('fastify.display-name')

const ROUTE_PLUGINS = [
  apiRootRoutes,
  onboardingRoutes,
  toolCallRoutes,
  toolCatalogueRoutes,
  toolPlanningRoutes,
  crewRoutes,
  hallucinationPillRoutes,
  callHistoryAndReceiptRoutes,
  creditBalanceRoutes,
  accountStatementRoutes,
  topUpAndSettlementRoutes,
  walletRoutes,
  fundPageRoutes,
  agentProfileAndTransferRoutes,
  ownerMessageRoutes,
  tipRoutes,
  fleetRoutes,
  fleetMemberRemovalRoutes,
  referralRoutes,
  radioDropRoutes,
  bountyRoutes,
  hiveMemoryRoutes,
  strategyRoutes,
  memoryVaultRoutes,
  memoryPackRoutes,
  apiKeyRoutes,
  taskSessionRoutes,
  scheduleRoutes,
  backpackRoutes,
  backpackLogRoutes,
  keyringSecretRoutes,
  clipboardRoutes,
  webhookRoutes,
  webhookDeliveryRoutes,
  signalRoutes,
  signalStreamRoutes,
  webSocketRoutes,
  pulseRoutes,
  messageRoutes,
  healthRoutes,
  errorCodeRoutes,
]

/** Builds the HTTP server, ready to listen. `close()` finishes running requests. */
export async function buildHttpServer(services: HttpServices): Promise<FastifyInstance> {
  const app = createServerWithoutRoutes(services)
  await installOpenApi(app, services)
  await installWebSockets(app)
  for (const routes of ROUTE_PLUGINS) {
    // Without it Fastify searches every loaded module for the name of each plugin.
    Object.assign(routes, { [PLUGIN_NAME]: routes.name })
    await app.register(routes)
  }
  installHttpRequestMetrics(app)
  await installApiReference(app)
  await app.ready()
  return app
}

/** Builds a server with all plugins and no routes. */
export function createServerWithoutRoutes(services: HttpServices): FastifyInstance {
  const { config } = services
  const refusals = createSocketClientErrorHandler()
  const app = fastify({
    logger: createLoggerOptions(config.logLevel),
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    trustProxy: toTrustProxy(config.trustProxy),
    bodyLimit: LIMITS.bodyBytes,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    onProtoPoisoning: 'error',
    onConstructorPoisoning: 'error',
    // A slow body is cut off in time only if the two other timeouts are lower as well.
    requestTimeout: 15_000,
    http: {
      headersTimeout: 10_000,
      connectionsCheckingInterval: 2_000,
      maxHeaderSize: LIMITS.headerBytes,
      // Node's own refusal has no body; `assertHostHeader` sends a problem document.
      requireHostHeader: false,
    },
    routerOptions: { maxParamLength: 256, ignoreTrailingSlash: true },
    clientErrorHandler: refusals.refuse,
    frameworkErrors: (error, _request, reply) => {
      const known = toHttpServiceError(error as FastifyError) ?? new ServiceError('internal')
      void sendProblemDetails(reply as never, known, config)
    },
  }).withTypeProvider<TypeBoxTypeProvider>()
  installSlowReaderTimeout(app.server)
  installLingeringClose(app.server)
  refusals.watch(app.server)
  app.decorate('services', services)
  ignoreRequestsAfterClose(app)
  rejectWhileClosing(app)
  assertHostHeader(app)
  installSchemaValidation(app)
  installBodyParser(app)
  installRequestLog(app)
  installErrorHandler(app, services)
  // Memory only: the plugin takes a window without samples for an endless event loop delay.
  void app.register(underPressure, {
    maxHeapUsedBytes: getHeapStatistics().heap_size_limit * MAX_HEAP_SHARE,
    exposeStatusRoute: false,
    pressureHandler: (request, _reply) => {
      if (request.url !== '/api/network/health')
        throw new ServiceError('unavailable', { retry_after: 2 })
    },
  })
  installDatabaseOutageGuard(app, services)
  installAuthentication(app, services)
  installCors(app)
  installRateLimits(app, services)
  installAuthorisation(app, services)
  return app as unknown as FastifyInstance
}

/**
 * Ignores requests pipelined behind a response with `Connection: close` (RFC 9112, 9.6): their responses
 * would be lost, and they may cost something.
 */
function ignoreRequestsAfterClose(app: { addHook: FastifyInstance['addHook'] }): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.raw.socket.writableEnded) return done()
    reply.hijack()
    discardSocketInput(request.raw.socket)
  })
}

/** HTTP/1.1 requires a Host header (RFC 9112, 3.2). */
function assertHostHeader(app: { addHook: FastifyInstance['addHook'] }): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers, httpVersion } = request.raw
    if (headers.host !== undefined || httpVersion !== '1.1') return done()
    done(new ServiceError('invalid_input', { detail: 'The header Host is missing.' }))
  })
}

/** Requests during shutdown get 503 with `Retry-After`. */
function rejectWhileClosing(app: { addHook: FastifyInstance['addHook'] }): void {
  let closing = false
  app.addHook('preClose', async () => {
    closing = true
  })
  app.addHook('onRequest', async (_request, reply) => {
    if (!closing) return
    reply.header('connection', 'close')
    throw new ServiceError('unavailable', { retry_after: 2 })
  })
}

/** A number counts the proxies in front of this node, nearest first. */
const toTrustProxy = (proxies: HttpServices['config']['trustProxy']) =>
  typeof proxies === 'number' ? (_address: string, hop: number) => hop < proxies : proxies
