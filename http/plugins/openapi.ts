import swagger from '@fastify/swagger'
import type { FastifyContextConfig, FastifyInstance, FastifySchema, RouteOptions } from 'fastify'
import { Type } from 'typebox'
import { MINUTE } from '../../core/clock.ts'
import { asMicros } from '../../core/money.ts'
import { isVerifiedTool } from '../../tools/tool-catalogue.ts'
import { selectToolsForModels } from '../../tools/tools-shown-to-models.ts'
import { createCachedDocumentHandler } from '../cached-http-document.ts'
import { withCommunityToolOperations } from '../openapi/openapi-community-tool-operations.ts'
import { completeOpenApiDocument } from '../openapi/complete-openapi-document.ts'
import type { OpenApiDocument } from '../openapi/openapi-document-types.ts'
import type { DocumentedRoute } from '../openapi/openapi-shared-responses.ts'
import { errorResponses } from '../schemas/shared-schemas.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'

/** The OpenAPI document of the service. */

const MICRO = asMicros(1n)

const INTRODUCTION = `A pay-per-call tool API for autonomous agents.

1. \`POST /api/onboard\` with a \`name\` returns a key, a wallet and starter credits. Send the key as \`X-API-Key\`.
2. \`POST /api/refuel\` with \`tool\` and the fields of the tool calls it; \`POST /api/quote\` says what it would cost.
3. The reply has the fields of the tool, and \`_meta\` with the cost, the balance and a receipt.

Every error is \`application/problem+json\`: act on \`code\`, and on \`remedy\` where there is one. A 402 says how to pay: with
x402, with MPP, or by funding the agent at \`fund_url\`. Send an \`Idempotency-Key\` with every write, and repeat it after a
lost answer: nothing is charged twice. Amounts are USDC numbers with at most six decimals.`

/** Every write accepts an Idempotency-Key (decision 16). */
const IdempotencyHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({ minLength: 1, maxLength: 255, description: 'Repeat safely for 24 hours.' }),
  ),
})

/** Whatever spends credits counts in a task and a Backpack (decision 471). */
const SpendingHeaders = Type.Object({
  ...IdempotencyHeaders.properties,
  'x-task-id': Type.Optional(Type.String({ description: 'Count what it costs in this task.' })),
  'x-backpack-id': Type.Optional(
    Type.String({ description: 'Apply the limits of this Backpack.' }),
  ),
})

function defaultHeaders(method: unknown, config: FastifyContextConfig | undefined) {
  if (config?.bound === 'pays') return SpendingHeaders
  return method === 'GET' ? undefined : IdempotencyHeaders
}

/** The second address serves the same document and is not in it. */
const documentRoute = (hide: boolean) => ({
  config: { auth: 'none' } as const,
  schema: {
    hide,
    operationId: 'getOpenApiDocument',
    summary: 'This document',
    description: 'The operations of this station as OpenAPI 3.1.',
    tags: ['service'],
    querystring: Type.Object({
      community: Type.Optional(
        Type.Literal('1', {
          description:
            'Also operations of tools of other agents that nobody has verified: 200 at most, with short schemas; `GET /api/tools` lists all.',
        }),
      ),
    }),
    response: {
      200: Type.Object(
        {
          openapi: Type.String(),
          info: Type.Object({}, { additionalProperties: true }),
          paths: Type.Object({}, { additionalProperties: true }),
          components: Type.Object({}, { additionalProperties: true }),
        },
        { additionalProperties: true },
      ),
      ...errorResponses,
    },
  },
})

/** Builds the OpenAPI 3.1 document from the schemas that also validate. Register it before the routes. */
export async function installOpenApi(
  app: FastifyInstance,
  { config, clock, catalogue, paying }: HttpServices,
): Promise<void> {
  const routes = new Map<string, DocumentedRoute>()
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Gas Station',
        version: config.version,
        description: INTRODUCTION,
        contact: { name: 'The operator of this station', url: config.publicUrl },
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: config.publicUrl }],
      components: {
        securitySchemes: {
          ApiKey: {
            type: 'apiKey',
            in: 'header',
            name: 'X-API-Key',
            description: 'The key of an agent, `gas_…`, from POST /api/onboard.',
          },
          Bearer: {
            type: 'http',
            scheme: 'bearer',
            description: 'The same key as `Authorization: Bearer gas_…`.',
          },
          OwnerSession: {
            type: 'apiKey',
            in: 'cookie',
            name: config.publicUrl.startsWith('https:') ? '__Host-gas_owner' : 'gas_owner',
            description:
              'The session of the page /owner, for pages of this station: with `X-Owner-Agent` and `X-CSRF-Token`.',
          },
        },
      },
    },
    refResolver: {
      buildLocalReference: ({ $id }, _base, _fragment, at) =>
        typeof $id === 'string' ? $id : `def-${at}`,
    },
    transform: ({ schema, url, route }) => {
      const hidden = route.method === 'HEAD' || schema?.hide === true || schema === undefined
      const audience = route.config?.auth
      const keyed = [{ ApiKey: [] }, { Bearer: [] }]
      const own = route.config?.ownerSession === true ? [{ OwnerSession: [] }] : []
      const security =
        audience === 'key' ? [...keyed, ...own] : audience === 'optional' ? [{}, ...keyed] : []
      const headers = schema?.headers ?? defaultHeaders(route.method, route.config)
      if (!hidden && schema.operationId !== undefined)
        routes.set(schema.operationId, toDocumentedRoute(route))
      const documented = { ...schema, security, ...(headers === undefined ? {} : { headers }) }
      return { schema: { ...documented, ...(hidden ? { hide: true } : {}) } as FastifySchema, url }
    },
  })
  const document = createOpenApiReader(() =>
    completeOpenApiDocument({
      generated: app.swagger(),
      routes,
      tools: catalogue.tools,
      paying,
      publicUrl: config.publicUrl,
    }),
  )
  app.decorate('openApiDocument', () => document(railsOf(paying)))
  const createSender = (community: boolean) =>
    createCachedDocumentHandler({
      clock,
      // As text: the schema of the answer says only what every such document has.
      type: 'application/json; charset=utf-8',
      read: () =>
        JSON.stringify(
          withCommunityToolOperations({
            document: app.openApiDocument(),
            // Models read it.
            entries: selectToolsForModels(catalogue.short(community ? undefined : isVerifiedTool), {
              community,
            }),
            find: (slug) => catalogue.find(slug),
            paying,
          }),
        ),
      maxAgeMs: MINUTE,
    })
  const [send, sendWithCommunity] = [createSender(false), createSender(true)]
  for (const path of ['/api/openapi.json', '/openapi.json']) {
    const route = documentRoute(path === '/openapi.json')
    app.get<{ Querystring: { community?: '1' } }>(path, route, (request, reply) => {
      reply.header('cache-control', 'public, max-age=60')
      const answer = request.query.community === '1' ? sendWithCommunity : send
      answer(request, reply)
    })
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The OpenAPI document without tools of other agents, once the server is ready. */
    openApiDocument(): OpenApiDocument
  }
}

/** Builds the document once, and again only after a rail was switched on or off. */
function createOpenApiReader(build: () => OpenApiDocument): (rails: string) => OpenApiDocument {
  let built: { rails: string; document: OpenApiDocument } | null = null
  return (rails) => {
    if (built?.rails !== rails) built = { rails, document: build() }
    return built.document
  }
}

/** What the document says about payments, in short. */
function railsOf(paying: HttpServices['paying']): string {
  const offer = paying.offer('/', { description: '', price: MICRO, deadlineMs: 0 })
  return JSON.stringify([offer?.requirements.length ?? 0, offer?.mpp?.currency ?? null])
}

const AUDIENCES = {
  none: 'Needs no key.',
  optional: 'Works with and without a key.',
  operator: 'For the operator.',
} as const
const BOUND = {
  pays: 'A key bound to a Backpack may call it and pays within the limits of the Backpack.',
  acts: 'A key bound to a Backpack may call it while the Backpack is active.',
  reads: 'A key bound to a Backpack may call it.',
} as const
/** Reached with a payment, though it charges no call. */
const PAYS_TOO = new Set(['topUp'])

function toDocumentedRoute({ method, config, schema }: RouteOptions): DocumentedRoute {
  const { auth = 'none', scope, bound, rate } = config ?? {}
  const key = scope === undefined ? 'Needs a key.' : `Needs a key with the scope \`${scope}\`.`
  const keyed = auth === 'key' || auth === 'optional'
  const binding = bound === undefined ? 'Refuses keys bound to a Backpack.' : BOUND[bound]
  return {
    method: String(method),
    access: `${auth === 'key' ? key : AUDIENCES[auth]}${keyed ? ` ${binding}` : ''}`,
    pays: bound === 'pays' || PAYS_TOO.has(schema?.operationId ?? ''),
    limited: rate !== 'none',
  }
}
