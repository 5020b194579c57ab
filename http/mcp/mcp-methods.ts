import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { CallerConnection } from '../../calls/call-request-and-reply-types.ts'
import { SECOND } from '../../core/clock.ts'
import { toExactJson } from '../../core/json/exact.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { toArguments } from '../../core/validation/request-fields.ts'
import { describeToolBuilder } from '../../tools/community/llm-safe-builder-text.ts'
import type { Tool } from '../../tools/define-tool.ts'
import { hasKeyScope } from '../auth/api-key-permissions.ts'
import { toCallerConnection } from '../http-tool-call-request.ts'
import { bodyTooLargeError } from '../plugins/body-parser.ts'
import { toHttpServiceError } from '../plugins/error-handler.ts'
import {
  JSON_RPC_CODES,
  LEGACY_MCP_VERSIONS,
  McpProtocolError,
  MODERN_MCP_VERSION,
  NEWEST_LEGACY_MCP_VERSION,
} from './mcp-protocol.ts'
import {
  createMcpReplyWriter,
  sendEmptyMcpSubscription,
  completeMcpResultForEra,
  toMcpServerInfo,
  type McpReplyWriter,
} from './mcp-replies.ts'
import { toMcpCallRequest } from './mcp-tool-call-request.ts'
import {
  toMcpRefusalResult,
  toMcpToolCallResult,
  type McpToolCallResult,
} from './mcp-tool-call-result.ts'
import {
  createMcpToolLister,
  findMcpTool,
  isToolCursor,
  type McpEndpointToolSelection,
} from './mcp-tool-list.ts'
import { parseMcpToolSelection, toolPermissionOf } from './mcp-tool-selection.ts'
import type { RunningMcpCalls } from './running-mcp-calls.ts'
import type { McpRequest } from './parse-mcp-message.ts'

/** The methods of MCP: discovery, the list of tools, and calls. */

/** An address that serves MCP. */
export interface McpEndpoint {
  readonly path: string
  /** Serves only the free tools that tell about this station. */
  readonly discoveryOnly: boolean
}

type AnswerMcpRequest = (
  message: McpRequest,
  request: FastifyRequest,
  reply: FastifyReply,
) => Promise<void>

/** How long a client may keep the list of tools and the capabilities. */
const CACHE_TTL_MS = 60 * SECOND
const CAPABILITIES = { tools: {} }
/** Bodies of these tools are programs. */
const LARGE_INPUT_TOOLS = new Set(['code_sandbox'])
/** No slug is longer; a name of a megabyte is not sent back. */
const MAX_TOLD_NAME_CHARS = 100

/** Returns what answers the requests of an endpoint. */
export function createMcpMethods(
  app: FastifyInstance,
  endpoint: McpEndpoint,
  running: RunningMcpCalls,
): AnswerMcpRequest {
  const { config, catalogue, clock } = app.services
  const listTools = createMcpToolLister(catalogue, clock)
  const scopeOf = (message: McpRequest, request: FastifyRequest) =>
    parseMcpToolSelection(app.services, message, request, endpoint.discoveryOnly)
  const cached = { ttlMs: CACHE_TTL_MS, cacheScope: 'public' }

  /** `last` is a member of the result that is JSON text already. */
  const resultText = (
    message: McpRequest,
    result: Readonly<Record<string, unknown>>,
    last: string | null = null,
  ): string => {
    const text = toExactJson(completeMcpResultForEra(message, result, config))
    const open = text.slice(0, -1)
    const whole = last === null ? text : `${open}${open === '{' ? '' : ','}${last}}`
    return `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":${whole}}`
  }

  async function toolListText(message: McpRequest, request: FastifyRequest): Promise<string> {
    const { cursor = null } = message.params
    if (cursor !== null && (typeof cursor !== 'string' || !isToolCursor(cursor)))
      throw invalidParams(message, 'The list of tools has no such cursor.')
    const permits = await toolPermissionOf(app, request)
    const { text, nextCursor } = listTools(scopeOf(message, request), permits, cursor)
    const kept = permits === null ? cached : { ...cached, cacheScope: 'private' }
    const more = nextCursor === null ? {} : { nextCursor }
    const shown = message.era === 'modern' ? { ...kept, ...more } : more
    return resultText(message, shown, `"tools":${text}`)
  }

  return async (message, request, reply) => {
    const writer = createMcpReplyWriter(reply, message, request.headers.accept)
    switch (`${message.era} ${message.method}`) {
      case 'modern tools/list':
      case 'legacy tools/list':
        return writer.send(await toolListText(message, request))
      case 'modern tools/call':
      case 'legacy tools/call': {
        const scope = scopeOf(message, request)
        const call = running.start(request.apiKey, message.id, toCallerConnection(reply))
        const result = await callTool(
          app,
          message,
          request,
          scope,
          writer,
          call.connection,
        ).finally(call.end)
        return writer.send(resultText(message, result))
      }
      case 'modern server/discover':
        return writer.send(
          resultText(message, {
            supportedVersions: [MODERN_MCP_VERSION],
            capabilities: CAPABILITIES,
            instructions: instructionsFor(endpoint, null),
            ...cached,
          }),
        )
      case 'modern subscriptions/listen':
        return sendEmptyMcpSubscription(reply, message, config)
      case 'legacy initialize':
        return writer.send(
          resultText(message, {
            protocolVersion: negotiateVersion(message),
            capabilities: CAPABILITIES,
            serverInfo: toMcpServerInfo(config),
            instructions: instructionsFor(endpoint, request.caller.keyStatus),
          }),
        )
      case 'legacy ping':
        return writer.send(resultText(message, {}))
      default:
        throw new McpProtocolError(
          JSON_RPC_CODES.methodNotFound,
          `There is no method ${message.method}.`,
          { status: message.era === 'modern' ? 404 : 200, id: message.id },
        )
    }
  }
}

const invalidParams = ({ id }: McpRequest, message: string, data?: unknown): McpProtocolError =>
  new McpProtocolError(JSON_RPC_CODES.invalidParams, message, { status: 200, id, data })

/** An unknown version gets the newest one that begins with `initialize`. */
function negotiateVersion({ params }: McpRequest): string {
  const { protocolVersion: wanted } = params
  return LEGACY_MCP_VERSIONS.find((known) => known === wanted) ?? NEWEST_LEGACY_MCP_VERSION
}

/** Text for the model. `keyStatus` is null where the answer is the same for all callers. */
function instructionsFor(
  { discoveryOnly }: McpEndpoint,
  keyStatus: 'none' | 'valid' | 'invalid' | null,
): string {
  const about = discoveryOnly
    ? 'Free tools that tell about a Gas Station, which sells calls of tools to agents.'
    : 'Each call of a tool is paid, unless its description says that it is free. A refusal is a problem document: `detail` says why, `remedy` what to do. Repeat a call safely with the same `_meta["gas/idempotency_key"]`.'
  if (keyStatus !== 'invalid') return about
  return `${about} The API key of this connection is unknown, revoked or expired.`
}

async function callTool(
  app: FastifyInstance,
  message: McpRequest,
  request: FastifyRequest,
  scope: McpEndpointToolSelection,
  { progress, reply }: McpReplyWriter,
  connection: CallerConnection,
): Promise<McpToolCallResult> {
  const { services, limits } = app
  const { name } = message.params
  const args = toArguments(message.params['arguments'])
  if (typeof name !== 'string') throw invalidParams(message, '`name` must be the name of a tool.')
  if (typeof args !== 'object' || args === null || Array.isArray(args))
    throw invalidParams(message, '`arguments` must be an object.')
  const tool = findMcpTool(services.catalogue, name, scope)
  if (tool === undefined) throw unknownToolError(app, message, name, scope)
  try {
    await limits.consume(request, reply, 'refuel', 1)
    assertCallable(request, tool)
    const { slug } = tool
    const call = { slug, args: args as Record<string, unknown>, meta: message.meta }
    const answer = await services.calls.refuel(
      toMcpCallRequest(request, connection, call),
      progress,
    )
    const isForeign = tool.community !== undefined
    const builder = isForeign ? describeToolBuilder(services.catalogue.toEntry(tool)) : null
    return toMcpToolCallResult(answer, builder)
  } catch (error) {
    services.plane.storage.failed(error)
    const known = toHttpServiceError(error as never, request)
    if (known === null) request.log.error({ reqId: request.id, err: error }, 'unexpected error')
    return toMcpRefusalResult(known ?? new ServiceError('internal'), request, message.era)
  }
}

function assertCallable({ apiKey, bodyBytes }: FastifyRequest, { slug }: Tool): void {
  if (apiKey !== null && !hasKeyScope(apiKey, 'tools'))
    throw new ServiceError('insufficient_scope', { scope: 'tools', scopes: apiKey.scopes })
  if (bodyBytes > LIMITS.bodyBytes && !LARGE_INPUT_TOOLS.has(slug))
    throw bodyTooLargeError(LIMITS.bodyBytes, `The body of ${slug}`)
}

function unknownToolError(
  { services }: FastifyInstance,
  message: McpRequest,
  name: string,
  { discoveryOnly }: McpEndpointToolSelection,
): McpProtocolError {
  const near = discoveryOnly ? null : services.catalogue.suggestSlug(name)
  const hint = near === null ? '' : ` Did you mean ${near}?`
  const told = name.slice(0, MAX_TOLD_NAME_CHARS)
  return invalidParams(message, `There is no tool ${JSON.stringify(told)} here.${hint}`, {
    code: 'unknown_tool',
    tool: told,
    ...(near === null ? {} : { did_you_mean: near }),
  })
}
