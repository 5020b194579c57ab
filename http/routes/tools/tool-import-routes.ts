import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { timingSafeTextEqual } from '../../../core/key-derivation-and-encryption.ts'
import { fromUsdc, toUsdc } from '../../../core/money.ts'
import { COMMUNITY_TOOL_STATES } from '../../../domain/community-tool-record.ts'
import { MAX_COMMUNITY_TOOL_PRICE, MIN_COMMUNITY_TOOL_PRICE } from '../../../domain/pricing.ts'
import { canHeaderCarryCredential } from '../../../tools/import/forbidden-request-headers.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  errorResponses,
  StrictBody,
  RequestUsdcAmountSchema,
  UuidSchema,
  WebAddress,
} from '../../schemas/shared-schemas.ts'
import { TOOL_CATEGORIES } from './tool-categories.ts'

/** Route to import tools from an OpenAPI document or an MCP server (decisions 248 and 249). */

const DEFAULT_CATEGORY = 'web'
const Address = (description: string) => Type.Optional(WebAddress(description))
const HEADER_NAME = '^[A-Za-z0-9-]{1,64}$'

const importTools = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'importTools',
    summary: 'Sell the operations of an API, or the tools of an MCP server',
    description:
      'Each becomes a priced tool with its schemas. The called origin must show your token (`/.well-known/gas-station.txt`), unless the request has the operator token in `X-Operator-Token`. Without `include` these are the GET operations, or all tools of the server. All are imported or none; what an earlier import has made stays.',
    tags: ['builders'],
    body: StrictBody({
      openapi_url: Address('An OpenAPI 3.0 or 3.1 document in JSON.'),
      mcp_url: Address('An MCP server over streamable HTTP.'),
      base_url: Address(
        'Where the operations are called. By default the origin of the document, with the path of its first server.',
      ),
      price_per_call_usdc: RequestUsdcAmountSchema('The price of a call', {
        minimum: toUsdc(MIN_COMMUNITY_TOOL_PRICE),
        maximum: toUsdc(MAX_COMMUNITY_TOOL_PRICE),
      }),
      include: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
          minItems: 1,
          maxItems: 200,
          uniqueItems: true,
          description: 'Operation ids, `METHOD /path`, or names of tools.',
        }),
      ),
      prefix: Type.Optional(
        Type.String({
          pattern: '^[a-z0-9][a-z0-9-]{2,47}$',
          maxLength: 20,
          description: 'How the slugs begin; by default the title of the document or server.',
        }),
      ),
      category: Type.Optional(
        Type.Enum([...TOOL_CATEGORIES], {
          default: DEFAULT_CATEGORY,
          description: 'The category of the tools.',
        }),
      ),
      accepts_promo: Type.Optional(
        Type.Boolean({ default: false, description: 'Whether promotional credits buy the tools.' }),
      ),
      upstream_header: Type.Optional(
        Type.String({
          pattern: HEADER_NAME,
          description: 'The header in which the service wants a credential.',
        }),
      ),
      upstream_value: Type.Optional(
        Type.String({
          minLength: 8,
          maxLength: 4_096,
          pattern: '^[\\x21-\\x7e]([\\x20-\\x7e]*[\\x21-\\x7e])?$',
          description: 'The credential: stored encrypted, sent to the called origin only.',
        }),
      ),
    }),
    response: {
      201: Type.Object({
        tools: Type.Array(
          Type.Object({
            slug: Type.String(),
            tool_id: UuidSchema,
            operation: Type.String(),
            status: Type.Enum([...COMMUNITY_TOOL_STATES]),
            imported: Type.Boolean({ description: 'False where an earlier import made it.' }),
            invoke_url: Type.String(),
          }),
        ),
        count: Type.Integer(),
      }),
      ...errorResponses,
    },
  },
}

/** Imports tools. */
export const toolImportRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, once, profiles, toolImports } = app.services

  app.post('/api/tools/import', importTools, async (request, reply) => {
    const write = toIdempotentRequest(request)
    const { body } = request
    const isOperator = isOperatorImport(request)
    if ((body.openapi_url === undefined) === (body.mcp_url === undefined))
      throw invalidInputError('/openapi_url', 'or mcp_url must be given, and not both')
    if ((body.upstream_header === undefined) !== (body.upstream_value === undefined))
      throw invalidInputError('/upstream_value', 'must be given with upstream_header')
    if (body.upstream_header !== undefined && !canHeaderCarryCredential(body.upstream_header))
      throw invalidInputError(
        '/upstream_header',
        'belongs to the connection, and has no credential',
      )
    const wanted = {
      openApiUrl: body.openapi_url ?? null,
      baseUrl: body.base_url ?? null,
      mcpUrl: body.mcp_url ?? null,
      prefix: body.prefix ?? null,
      include: body.include ?? null,
      price: fromUsdc(body.price_per_call_usdc, '/price_per_call_usdc'),
      category: body.category ?? DEFAULT_CATEGORY,
      acceptsPromo: body.accepts_promo ?? false,
      credential:
        body.upstream_header === undefined
          ? null
          : { header: body.upstream_header.toLowerCase(), value: body.upstream_value ?? '' },
    }
    return sendIdempotentReply(
      reply,
      once.runThenRecord(write, async () => {
        const profile = await profiles.of(request.agentId)
        const builder = {
          builderId: request.agentId,
          builderName: profile?.name ?? request.agentId,
          builderVisitor: request.caller.visitorId,
        }
        const results = await toolImports.run(builder, wanted, isOperator)
        const tools = results.map(({ slug, toolId, operation, state, isNew }) => ({
          slug,
          tool_id: toolId,
          operation,
          status: state,
          imported: isNew,
          invoke_url: `${config.publicUrl}/api/tools/${slug}/invoke`,
        }))
        return { status: 201, body: { tools, count: tools.length } }
      }),
    )
  })

  /** A wrong token is an error, so that nobody believes to have imported as the operator. */
  function isOperatorImport({ headers }: FastifyRequest): boolean {
    const given = headers['x-operator-token']
    if (given === undefined) return false
    const { operatorToken } = config
    const isRight =
      operatorToken !== null &&
      typeof given === 'string' &&
      timingSafeTextEqual(given, operatorToken.reveal())
    if (isRight) return true
    throw new ServiceError('unauthenticated', { detail: 'The operator token is wrong.' })
  }
}
