import { randomUUID } from 'node:crypto'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, { LogController, type FastifyError, type FastifyInstance } from 'fastify'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import {
  askForBody,
  assertBodyReadable,
  assertKeylessBodySize,
  installContinueGate,
} from './plugins/body-gate.ts'
import {
  assertBodySafe,
  assertRequestBodyParsed,
  installBodyParser,
} from './plugins/body-parser.ts'
import { createBodyRoom } from './plugins/body-room.ts'
import { createAuthentication, createAuthorisation } from './plugins/auth.ts'
import { installCorsPreflight, setCorsHeaders } from './plugins/cors.ts'
import { installHttpRequestMetrics } from './plugins/http-request-metrics.ts'
import { createMemoryPressureGuard } from './plugins/memory-pressure-guard.ts'
import { installOpenApi } from './plugins/openapi.ts'
import { createDatabaseOutageGuard } from './plugins/database-outage-guard.ts'
import {
  toHttpServiceError,
  installErrorHandler,
  sendProblemDetails,
} from './plugins/error-handler.ts'
import { installRateLimits } from './plugins/http-request-rate-limits.ts'
import { createKeptBytesCharge, createKeptBytesReturn } from './plugins/kept-bytes.ts'
import { setRequestIdHeader } from './plugins/request-id-header.ts'
import { createRequestLog, createLoggerOptions } from './plugins/request-log.ts'
import {
  installRequestHooks,
  type RequestHook,
  type ResponseHook,
} from './plugins/request-hooks.ts'
import { mcpRoutes } from './mcp/mcp-routes.ts'
import { agentSpendingAndContactEmailRoutes } from './routes/agents/agent-spending-and-contact-email-routes.ts'
import { digestSubscriptionRoutes } from './routes/owner/weekly-digest-unsubscribe-routes.ts'
import { ownerSessionRoutes } from './routes/owner/owner-session-routes.ts'
import { agentFreezeRoutes } from './routes/agents/agent-freeze-routes.ts'
import { agentProfileAndTransferRoutes } from './routes/agents/agent-profile-and-transfer-routes.ts'
import { backpackLogRoutes } from './routes/backpacks/backpack-log-routes.ts'
import { backpackRoutes } from './routes/backpacks/backpack-routes.ts'
import { bountyRoutes } from './routes/payments/bounty-routes.ts'
import { callHistoryAndReceiptRoutes } from './routes/tools/call-history-and-receipt-routes.ts'
import { clipboardRoutes } from './routes/backpacks/backpack-clipboard-routes.ts'
import { crewRoutes } from './routes/tools/crew-routes.ts'
import { creditBalanceRoutes } from './routes/payments/credit-balance-routes.ts'
import { agentFundingPageRoutes } from './routes/payments/fund-page-routes.ts'
import { fleetMemberRemovalRoutes } from './routes/fleets/fleet-member-removal-routes.ts'
import { fleetRoutes } from './routes/fleets/fleet-routes.ts'
import { inspectorPageRoutes } from './routes/inspector/inspector-page-routes.ts'
import { actorHistoryRoutes } from './routes/inspector/actor-history-routes.ts'
import { statelyBridgeRoutes } from './routes/inspector/stately-bridge-routes.ts'
import { refusalExplanationRoutes } from './routes/inspector/refusal-explanation-routes.ts'
import { machineConfigRoutes } from './routes/inspector/machine-config-routes.ts'
import { inspectorFeedRoutes } from './routes/inspector/inspector-feed-routes.ts'
import { inspectorSessionRoutes } from './routes/inspector/inspector-session-routes.ts'
import { hiveMemoryRoutes } from './routes/memory/hive-memory-routes.ts'
import { healthRoutes } from './routes/service/health-routes.ts'
import { keyringSecretRoutes } from './routes/backpacks/backpack-keyring-secret-routes.ts'
import { apiKeyRoutes } from './routes/agents/api-key-routes.ts'
import { messageRoutes } from './routes/realtime/message-routes.ts'
import { onboardingRoutes } from './routes/agents/onboarding-routes.ts'
import { agentToOwnerMessageRoutes } from './routes/agents/notify-owner-routes.ts'
import { topUpAndSettlementRoutes } from './routes/payments/top-up-and-settlement-routes.ts'
import { toolPlanningRoutes } from './routes/tools/tool-planning-routes.ts'
import { hallucinationPillRoutes } from './routes/tools/hallucination-check-routes.ts'
import { errorCodeRoutes } from './routes/service/error-code-routes.ts'
import { pulseRoutes } from './routes/realtime/pulse-routes.ts'
import { creditDropRoutes } from './routes/payments/credit-drop-routes.ts'
import { referralRoutes } from './routes/agents/referral-routes.ts'
import { toolCallRoutes } from './routes/tools/tool-call-routes.ts'
import { signalRoutes } from './routes/realtime/signal-routes.ts'
import { scheduleRoutes } from './routes/tasks/schedule-routes.ts'
import { memoryMarketplaceRoutes } from './routes/memory/memory-marketplace-routes.ts'
import { mechMarketplaceAdapterRoutes } from './routes/tools/mech-routes.ts'
import { memoryPackRoutes } from './routes/memory/memory-pack-routes.ts'
import { accountStatementRoutes } from './routes/payments/account-statement-routes.ts'
import { strategyRoutes } from './routes/memory/strategy-routes.ts'
import { memoryVaultRoutes } from './routes/memory/memory-vault-routes.ts'
import { taskPassRoutes } from './routes/tasks/task-pass-routes.ts'
import { taskSessionRoutes } from './routes/tasks/task-session-routes.ts'
import { tipRoutes } from './routes/payments/tip-routes.ts'
import { toolBuilderRoutes } from './routes/tools/community-tool-seller-routes.ts'
import { toolImportRoutes } from './routes/tools/tool-import-routes.ts'
import { communityToolRoutes } from './routes/tools/community-tool-routes.ts'
import { toolCatalogueRoutes } from './routes/tools/tool-catalogue-routes.ts'
import { walletRoutes } from './routes/payments/wallet-routes.ts'
import { webhookDeliveryRoutes } from './routes/webhooks/webhook-delivery-routes.ts'
import { webhookRoutes } from './routes/webhooks/webhook-routes.ts'
import { publicStationDocumentRoutes } from './routes/public/station-description-document-routes.ts'
import { attestationRoutes } from './routes/public/attestation-routes.ts'
import { cookbookRoutes } from './routes/public/cookbook-routes.ts'
import { discoveryDocumentRoutes } from './routes/public/discovery-document-routes.ts'
import { agentDirectoryRoutes } from './routes/public/agent-directory-routes.ts'
import { manifestoRoutes } from './routes/public/manifesto-routes.ts'
import { marketDataRoutes } from './routes/public/market-data-routes.ts'
import { hallOfAgentsAndBadgeRoutes } from './routes/public/hall-and-badge-routes.ts'
import { rssFeedRoutes } from './routes/public/rss-feed-routes.ts'
import { statisticsRoutes } from './routes/public/statistics-routes.ts'
import { liveStatisticsRoutes } from './sse/live-statistics-routes.ts'
import { bountyPageRoutes } from './routes/pages/bounty-page-routes.ts'
import { guidePageRoutes } from './routes/pages/guide-page-routes.ts'
import { memoryListingPageRoutes } from './routes/pages/memory-listing-page-routes.ts'
import { pageAssetRoutes } from './routes/pages/page-asset-routes.ts'
import { toolPageRoutes } from './routes/pages/tool-page-routes.ts'
import { bazaarDiscoveryRoutes } from './routes/x402/bazaar-discovery-routes.ts'
import { payableApiRoutes } from './routes/x402/payable-api-routes.ts'
import { apiRootRoutes } from './routes/service/api-root-routes.ts'
import type { HttpServices } from './http-config-and-service-types.ts'
import { discardSocketInput, installLingeringClose } from './plugins/lingering-close.ts'
import { installPipeliningLimit } from './plugins/http-pipelining-limit.ts'
import { createSocketClientErrorHandler } from './plugins/socket-client-error-handler.ts'
import { installStalledClientTimeout } from './plugins/slow-reader-timeout.ts'
import { signalStreamRoutes } from './sse/signal-stream-routes.ts'
import { installWebSockets, webSocketRoutes } from './websocket/websocket-server.ts'
import type {} from './fastify-augmentation.ts'
import { installSchemaValidation } from './plugins/request-schema-validation.ts'

/** Builds the Fastify server: plugins, limits and routes. */

/** Where Fastify looks for the name of a plugin. */
const PLUGIN_NAME = Symbol.for('fastify.display-name')

const ROUTE_PLUGINS = [
  apiRootRoutes,
  toolPageRoutes,
  pageAssetRoutes,
  guidePageRoutes,
  bountyPageRoutes,
  memoryListingPageRoutes,
  onboardingRoutes,
  toolCallRoutes,
  toolCatalogueRoutes,
  communityToolRoutes,
  toolImportRoutes,
  toolBuilderRoutes,
  toolPlanningRoutes,
  crewRoutes,
  hallucinationPillRoutes,
  callHistoryAndReceiptRoutes,
  creditBalanceRoutes,
  accountStatementRoutes,
  topUpAndSettlementRoutes,
  walletRoutes,
  agentFundingPageRoutes,
  agentProfileAndTransferRoutes,
  agentToOwnerMessageRoutes,
  agentFreezeRoutes,
  agentSpendingAndContactEmailRoutes,
  ownerSessionRoutes,
  digestSubscriptionRoutes,
  tipRoutes,
  fleetRoutes,
  fleetMemberRemovalRoutes,
  referralRoutes,
  creditDropRoutes,
  bountyRoutes,
  hiveMemoryRoutes,
  strategyRoutes,
  memoryVaultRoutes,
  memoryPackRoutes,
  memoryMarketplaceRoutes,
  apiKeyRoutes,
  taskSessionRoutes,
  taskPassRoutes,
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
  mcpRoutes,
  mechMarketplaceAdapterRoutes,
  pulseRoutes,
  messageRoutes,
  statisticsRoutes,
  liveStatisticsRoutes,
  hallOfAgentsAndBadgeRoutes,
  rssFeedRoutes,
  publicStationDocumentRoutes,
  agentDirectoryRoutes,
  discoveryDocumentRoutes,
  attestationRoutes,
  cookbookRoutes,
  manifestoRoutes,
  marketDataRoutes,
  payableApiRoutes,
  bazaarDiscoveryRoutes,
  healthRoutes,
  errorCodeRoutes,
  inspectorPageRoutes,
  inspectorSessionRoutes,
  inspectorFeedRoutes,
  actorHistoryRoutes,
  machineConfigRoutes,
  refusalExplanationRoutes,
  statelyBridgeRoutes,
]

/** Builds the HTTP server, ready to listen. `close()` finishes running requests. */
export async function buildHttpServer(services: HttpServices): Promise<FastifyInstance> {
  const answered: ResponseHook[] = []
  const app = createServerWithoutRoutes(services, answered)
  await installOpenApi(app, services)
  await installWebSockets(app)
  for (const routes of ROUTE_PLUGINS) {
    // Without it Fastify searches every loaded module for the name of each plugin.
    Object.assign(routes, { [PLUGIN_NAME]: routes.name })
    await app.register(routes)
  }
  answered.push(installHttpRequestMetrics(app))
  await app.ready()
  return app
}

/** Builds a server with all plugins and no routes. `answered` takes further looks at answers. */
export function createServerWithoutRoutes(
  services: HttpServices,
  answered: ResponseHook[] = [],
): FastifyInstance {
  const { config } = services
  const refusals = createSocketClientErrorHandler(config)
  const app = fastify({
    logger: createLoggerOptions(config.logLevel),
    logController: new LogController({ disableRequestLogging: true }),
    // A logger of its own would cost every request; what is logged of one names its id.
    childLoggerFactory: (logger) => logger,
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    bodyLimit: LIMITS.bodyBytes,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    // A slow body is cut off in time only if the two other timeouts are lower as well.
    requestTimeout: 15_000,
    http: {
      headersTimeout: 10_000,
      connectionsCheckingInterval: 2_000,
      maxHeaderSize: LIMITS.headerBytes,
      // Node's own refusal has no body; `assertMessageFraming` sends a problem document.
      requireHostHeader: false,
    },
    routerOptions: { maxParamLength: 256, ignoreTrailingSlash: true },
    clientErrorHandler: refusals.refuse,
    frameworkErrors: (error, _request, reply) => {
      const known = toHttpServiceError(error as FastifyError) ?? new ServiceError('internal')
      void sendProblemDetails(reply as never, known, config)
    },
  }).withTypeProvider<TypeBoxTypeProvider>()
  installPipeliningLimit(app.server)
  installStalledClientTimeout(app.server)
  installLingeringClose(app.server)
  installContinueGate(app.server)
  refusals.watch(app.server)
  app.decorate('services', services)
  installSchemaValidation(app)
  installBodyParser(app)
  installErrorHandler(app, services)
  installCorsPreflight(app)
  const outages = createDatabaseOutageGuard(app, services)
  answered.push(outages.forget, createRequestLog(), createKeptBytesReturn(services))
  installRequestHooks(app, {
    received: [
      ignoreAfterClose,
      setRequestIdHeader,
      setCorsHeaders,
      createClosingRefusal(app),
      assertMessageFraming,
      assertBodyReadable,
      outages.watch,
      ...createNotesForWatchers(services),
      createAuthentication(app, services),
      assertKeylessBodySize,
      installRateLimits(app, services),
      createAuthorisation(services),
      createMemoryPressureGuard(services),
      createKeptBytesCharge(services),
      createBodyRoom(),
      askForBody,
    ],
    parsed: [assertRequestBodyParsed, outages.leaveToTool],
    validated: [assertBodySafe],
    answered,
  })
  return app as unknown as FastifyInstance
}

/**
 * Ignores requests pipelined behind a response with `Connection: close` (RFC 9112, 9.6): their responses
 * would be lost, and they may cost something.
 */
const ignoreAfterClose: RequestHook = ({ raw }, reply) => {
  if (!raw.socket.writableEnded) return
  reply.hijack()
  discardSocketInput(raw.socket)
}

/** While somebody watches the inspector, commands know the request they come from. */
function createNotesForWatchers({ inspection }: HttpServices): RequestHook[] {
  if (inspection === null) return []
  return [({ id }) => (inspection.watched ? inspection.enterRequest(id) : undefined)]
}

/**
 * HTTP/1.1 requires one Host header (RFC 9112, 3.2): a proxy may have judged another one. A coding beside
 * `chunked` would be read as if it were plain (6.1).
 */
const assertMessageFraming: RequestHook = ({ raw: { headers, httpVersion, rawHeaders } }) => {
  const { host, 'transfer-encoding': coding } = headers
  if (host === undefined ? httpVersion === '1.1' : countHosts(rawHeaders) > 1) {
    const fault = host === undefined ? 'is missing' : 'was sent more than once'
    throw new ServiceError('invalid_input', { detail: `The header Host ${fault}.` })
  }
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    throw new ServiceError('invalid_input', {
      detail: 'The header Transfer-Encoding must be chunked: other codings are not read here.',
    })
}

function countHosts(rawHeaders: readonly string[]): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]?.length === 4 && rawHeaders[at]?.toLowerCase() === 'host') count += 1
  return count
}

/** Requests during shutdown get 503 with `Retry-After`. */
function createClosingRefusal(app: { addHook: FastifyInstance['addHook'] }): RequestHook {
  let closing = false
  app.addHook('preClose', async () => {
    closing = true
  })
  return (_request, reply) => {
    if (!closing) return
    reply.header('connection', 'close')
    throw new ServiceError('unavailable', { retry_after: 2 })
  }
}
