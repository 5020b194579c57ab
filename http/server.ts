import { randomUUID } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import underPressure from '@fastify/under-pressure'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, { LogController, type FastifyError, type FastifyInstance } from 'fastify'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { installBodies } from './body.ts'
import { installAuthorisation, installIdentity } from './plugins/auth.ts'
import { installCors } from './plugins/cors.ts'
import { installDocs } from './plugins/docs.ts'
import { installMetrics } from './plugins/metrics.ts'
import { installOpenApi } from './plugins/openapi.ts'
import { installOutageGuard } from './plugins/outage.ts'
import { expected, installProblems, sendProblem } from './plugins/problems.ts'
import { installRateLimits } from './plugins/rate-limits.ts'
import { installRequestLog, loggerOptions } from './plugins/request-log.ts'
import { agentRoutes } from './routes/agent.ts'
import { backpackLogs } from './routes/backpack-logs.ts'
import { backpackRoutes } from './routes/backpacks.ts'
import { bountyRoutes } from './routes/bounties.ts'
import { callRoutes } from './routes/calls.ts'
import { clipboardRoutes } from './routes/clipboard.ts'
import { crewRoutes } from './routes/crews.ts'
import { creditRoutes } from './routes/credits.ts'
import { fundRoutes } from './routes/fund.ts'
import { fleetLeaveRoutes } from './routes/fleet-leaves.ts'
import { fleetRoutes } from './routes/fleets.ts'
import { hiveRoutes } from './routes/hive.ts'
import { healthRoutes } from './routes/health.ts'
import { keyringRoutes } from './routes/keyring.ts'
import { keyRoutes } from './routes/keys.ts'
import { messageRoutes } from './routes/messages.ts'
import { onboarding } from './routes/onboard.ts'
import { ownerRoutes } from './routes/owner.ts'
import { paymentRoutes } from './routes/payments.ts'
import { planningRoutes } from './routes/planning.ts'
import { pillRoutes } from './routes/pill.ts'
import { problemRoutes } from './routes/problems.ts'
import { pulseRoutes } from './routes/pulses.ts'
import { radioDropRoutes } from './routes/radio-drop.ts'
import { referralRoutes } from './routes/referrals.ts'
import { refuelRoutes } from './routes/refuel.ts'
import { signalRoutes } from './routes/signals.ts'
import { scheduleRoutes } from './routes/schedules.ts'
import { packRoutes } from './routes/packs.ts'
import { statementRoutes } from './routes/statement.ts'
import { strategyRoutes } from './routes/strategies.ts'
import { vaultRoutes } from './routes/vault.ts'
import { taskRoutes } from './routes/tasks.ts'
import { tipRoutes } from './routes/tip.ts'
import { toolRoutes } from './routes/tools.ts'
import { walletRoutes } from './routes/wallet.ts'
import { webhookDeliveryRoutes } from './routes/webhook-deliveries.ts'
import { webhookRoutes } from './routes/webhooks.ts'
import { welcomeRoutes } from './routes/welcome.ts'
import type { Services } from './services.ts'
import { ignoreRest, lingers } from './lingering.ts'
import { connectionRefusals } from './refusing.ts'
import { cutsOffStalled } from './stalled.ts'
import { signalStreamRoutes } from './streams/signal-stream.ts'
import { installWebSockets, socketRoutes } from './streams/socket.ts'
import type {} from './types.ts'
import { installValidation } from './validation.ts'

/** New work is turned away above this share of the heap, so that what runs can finish. */
const FULL_HEAP = 0.95

const ROUTES = [
  welcomeRoutes,
  onboarding,
  refuelRoutes,
  toolRoutes,
  planningRoutes,
  crewRoutes,
  pillRoutes,
  callRoutes,
  creditRoutes,
  statementRoutes,
  paymentRoutes,
  walletRoutes,
  fundRoutes,
  agentRoutes,
  ownerRoutes,
  tipRoutes,
  fleetRoutes,
  fleetLeaveRoutes,
  referralRoutes,
  radioDropRoutes,
  bountyRoutes,
  hiveRoutes,
  strategyRoutes,
  vaultRoutes,
  packRoutes,
  keyRoutes,
  taskRoutes,
  scheduleRoutes,
  backpackRoutes,
  backpackLogs,
  keyringRoutes,
  clipboardRoutes,
  webhookRoutes,
  webhookDeliveryRoutes,
  signalRoutes,
  signalStreamRoutes,
  socketRoutes,
  pulseRoutes,
  messageRoutes,
  healthRoutes,
  problemRoutes,
]

/** The HTTP server over the services, ready to listen; `close()` finishes what runs. */
export async function buildServer(services: Services): Promise<FastifyInstance> {
  const app = createServer(services)
  await installOpenApi(app, services)
  await installWebSockets(app)
  for (const routes of ROUTES) await app.register(routes)
  installMetrics(app)
  await installDocs(app)
  await app.ready()
  return app
}

/** A server with every rule of the house and no routes yet. */
export function createServer(services: Services): FastifyInstance {
  const { config } = services
  const refusals = connectionRefusals()
  const app = fastify({
    logger: loggerOptions(config.logLevel),
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    trustProxy: trusted(config.trustProxy),
    bodyLimit: LIMITS.bodyBytes,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    onProtoPoisoning: 'error',
    onConstructorPoisoning: 'error',
    // A slow body is only cut in time when the other two are lowered as well.
    requestTimeout: 15_000,
    http: {
      headersTimeout: 10_000,
      connectionsCheckingInterval: 2_000,
      maxHeaderSize: LIMITS.headerBytes,
      // Its refusal would be told without a word; `demandHost` says it.
      requireHostHeader: false,
    },
    routerOptions: { maxParamLength: 256, ignoreTrailingSlash: true },
    clientErrorHandler: refusals.refuse,
    frameworkErrors: (error, _request, reply) => {
      const known = expected(error as FastifyError) ?? new ServiceError('internal')
      void sendProblem(reply as never, known, config)
    },
  }).withTypeProvider<TypeBoxTypeProvider>()
  cutsOffStalled(app.server)
  lingers(app.server)
  refusals.watch(app.server)
  app.decorate('services', services)
  ignoreAfterLast(app)
  refuseWhileClosing(app)
  demandHost(app)
  installValidation(app)
  installBodies(app)
  installRequestLog(app)
  installProblems(app, services)
  // Memory only: the plugin takes a window without a sample for an endless delay of the event loop.
  void app.register(underPressure, {
    maxHeapUsedBytes: getHeapStatistics().heap_size_limit * FULL_HEAP,
    exposeStatusRoute: false,
    pressureHandler: (request, _reply) => {
      if (request.url !== '/api/network/health')
        throw new ServiceError('unavailable', { retry_after: 2 })
    },
  })
  installOutageGuard(app, services)
  installIdentity(app, services)
  installCors(app)
  installRateLimits(app, services)
  installAuthorisation(app, services)
  return app as unknown as FastifyInstance
}

/**
 * What comes on a connection behind its last answer is not done (RFC 9112, 9.6): its own answer would
 * reach nobody, and it may cost something.
 */
function ignoreAfterLast(app: { addHook: FastifyInstance['addHook'] }): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.raw.socket.writableEnded) return done()
    reply.hijack()
    ignoreRest(request.raw.socket)
  })
}

/** HTTP/1.1 demands the header (RFC 9112, 3.2). */
function demandHost(app: { addHook: FastifyInstance['addHook'] }): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers, httpVersion } = request.raw
    if (headers.host !== undefined || httpVersion !== '1.1') return done()
    done(new ServiceError('invalid_input', { detail: 'The header Host is missing.' }))
  })
}

/** Who comes while the service stops is told when to come back, like anybody else. */
function refuseWhileClosing(app: { addHook: FastifyInstance['addHook'] }): void {
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

/** A number counts the proxies in front of us, the nearest first. */
const trusted = (proxies: Services['config']['trustProxy']) =>
  typeof proxies === 'number' ? (_address: string, hop: number) => hop < proxies : proxies
