import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { httpStatusOf, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { errorResponses } from '../schemas/shared-schemas.ts'
import { bodyNotJsonError } from '../plugins/body-parser.ts'
import { toHttpServiceError, toRequestProblemDocument } from '../plugins/error-handler.ts'
import { createMcpMethods, type McpEndpoint } from './mcp-methods.ts'
import { assertMcpOrigin } from './mcp-origin-check.ts'
import {
  JSON_RPC_CODES,
  LEGACY_MCP_VERSIONS,
  McpProtocolError,
  MODERN_MCP_VERSION,
} from './mcp-protocol.ts'
import { sendMcpError, toMcpServerInfo } from './mcp-replies.ts'
import { parseMcpMessage, readMessageId } from './parse-mcp-message.ts'
import { createRunningMcpCalls } from './running-mcp-calls.ts'

/** Routes of the Model Context Protocol (decisions 45 and 201): both eras, without sessions. */

const ENDPOINTS: readonly McpEndpoint[] = [
  { path: '/mcp', discoveryOnly: false },
  { path: '/hivecast/mcp', discoveryOnly: true },
]

const tags = ['mcp']

const postMessage = (operationId: string, summary: string) => ({
  bodyLimit: LIMITS.largeBodyBytes,
  config: {
    auth: 'optional',
    rate: 'read',
    bound: 'pays',
    checksBinding: true,
    runsTools: true,
    passBadKey: true,
    ignoresUnknownQuery: true,
  } as const,
  // No body: `describeOpenApiMcpOperations` documents what the protocol validates.
  schema: { operationId, summary, tags },
})

const getMetadata = (operationId: string, summary: string) => ({
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: {
    operationId,
    summary,
    tags,
    response: {
      200: Type.Object({
        name: Type.String(),
        title: Type.String(),
        version: Type.String(),
        description: Type.String(),
        url: Type.String({ format: 'uri' }),
        transport: Type.Literal('streamable-http'),
        protocol_versions: Type.Array(Type.String()),
        authentication: Type.Object({
          required: Type.Boolean(),
          headers: Type.Array(Type.String()),
          onboard: Type.String({ format: 'uri' }),
        }),
        payment: Type.Object({ x402: Type.String() }),
      }),
      ...errorResponses,
    },
  },
})

/** The operations of an endpoint. */
const operationsOf = ({ discoveryOnly }: McpEndpoint) =>
  discoveryOnly
    ? {
        post: postMessage('sendDiscoveryMessage', 'Send a message to the free discovery tools'),
        get: getMetadata('getDiscoveryMcpMetadata', 'What the MCP endpoint of discovery offers'),
      }
    : {
        post: postMessage('sendMcpMessage', 'Send a message of the Model Context Protocol'),
        get: getMetadata('getMcpMetadata', 'What the MCP endpoint offers'),
      }

/** The MCP endpoints. Every failure is a JSON-RPC error, and never HTTP 401, which would start OAuth. */
export const mcpRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config } = app.services
  app.addHook('onRequest', async (request) => assertMcpOrigin(request, config.publicUrl))
  app.setErrorHandler((error: FastifyError, request, reply) =>
    sendFailure(app, error, request, reply),
  )

  const running = createRunningMcpCalls(app.limits)
  for (const endpoint of ENDPOINTS) {
    const answer = createMcpMethods(app, endpoint, running)
    const operations = operationsOf(endpoint)

    app.post(endpoint.path, operations.post, async (request, reply) => {
      const message = parseMcpMessage(request.body, request.headers)
      if (message === null) {
        const { method, params } = request.body as Record<string, unknown>
        const { requestId } = (params ?? {}) as Record<string, unknown>
        if (method === 'notifications/cancelled') await running.cancel(request.apiKey, requestId)
        return reply.code(202).send()
      }
      await answer(message, request, reply)
      return reply
    })

    app.get(endpoint.path, operations.get, async (request, reply) => {
      if (wantsEventStream(request))
        throw new ServiceError('method_not_allowed', { allow: ['POST'] })
      return reply.header('cache-control', 'public, max-age=60').send({
        ...toMcpServerInfo(config),
        description: endpoint.discoveryOnly
          ? 'Free tools that tell about this station. All its tools are at /mcp.'
          : 'Pay-per-call tools for agents. A call is paid by the credits of an API key, or by x402.',
        url: `${config.publicUrl}${endpoint.path}`,
        transport: 'streamable-http' as const,
        protocol_versions: [MODERN_MCP_VERSION, ...LEGACY_MCP_VERSIONS],
        authentication: {
          required: false,
          headers: ['X-API-Key', 'Authorization: Bearer'],
          onboard: `${config.publicUrl}/api/onboard`,
        },
        payment: { x402: '_meta["x402/payment"]' },
      })
    })
  }
}

/** A client of 2025 asks for a stream of messages of the server; there is none. */
const wantsEventStream = ({ headers }: FastifyRequest): boolean =>
  (headers.accept ?? '').includes('text/event-stream')

function sendFailure(
  app: FastifyInstance,
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  if (error instanceof McpProtocolError) {
    sendMcpError(reply, error.status, [error.id, error.code, error.message, error.data])
    return reply
  }
  const { plane, config } = app.services
  const known = toHttpServiceError(error, request)
  plane.storage.failed(error)
  if (known === null) request.log.error({ reqId: request.id, err: error }, 'unexpected error')
  const refusal = known ?? new ServiceError('internal')
  const problem = toRequestProblemDocument(refusal, request, config)
  const { retry_after: retryAfter } = refusal.details
  if (retryAfter !== undefined) reply.header('retry-after', String(Math.ceil(retryAfter)))
  if (refusal.code === 'method_not_allowed') reply.header('allow', 'POST')
  const status = httpStatusOf(refusal.code)
  const code = status >= 500 ? JSON_RPC_CODES.internalError : toRequestErrorCode(refusal)
  // A client that gets 401 looks for an OAuth server.
  sendMcpError(reply, status === 401 ? 400 : status, [
    readMessageId(request.body ?? request.rawBody),
    code,
    String(problem['detail']),
    problem,
  ])
  return reply
}

const toRequestErrorCode = ({ details }: ServiceError): number =>
  details['detail'] === bodyNotJsonError().details['detail']
    ? JSON_RPC_CODES.parseError
    : JSON_RPC_CODES.invalidRequest
