import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { findCaip2Id, findV1NetworkName } from '../../../chain/x402/x402-network-names.ts'
import { invalidInputError } from '../../../core/errors.ts'
import type { EndpointPaymentOffer } from '../../../domain/payable-endpoint-offers.ts'
import type { PayableApi } from '../../../persistence/x402/payable-api-store.ts'
import { errorResponses, Nullable, toIsoTime } from '../../schemas/shared-schemas.ts'

/** The registry in the form of x402 Bazaars, for clients that read them. */

const tags = ['registry']
/** Clients of Bazaars send parameters of facilitators that this station does not know. */
const config = { auth: 'none', ignoresUnknownQuery: true } as const
const PAGE_MAX = 100
const PAGE_DEFAULT = 20
const MAX_OFFSET = 100_000
const X402_VERSION = 2
/** What clients assume where a server names no time. */
const DEFAULT_TIMEOUT_SECONDS = 60

const LimitSchema = Type.Optional(
  Type.Integer({ minimum: 1, maximum: PAGE_MAX, default: PAGE_DEFAULT }),
)
const filters = {
  type: Type.Optional(Type.Enum(['http', 'mcp'], { description: 'All entries are `http`.' })),
  network: Type.Optional(
    Type.String({ maxLength: 64, description: 'A network, as `base` or `eip155:8453`.' }),
  ),
  scheme: Type.Optional(Type.String({ maxLength: 64, description: 'A scheme, as `exact`.' })),
  payTo: Type.Optional(Type.String({ maxLength: 128, description: 'The address that is paid.' })),
}

const ResourceSchema = Type.Object({
  resource: Type.String({ description: 'The address.' }),
  type: Type.Literal('http'),
  x402Version: Type.Integer(),
  accepts: Type.Array(Type.Object({}, { additionalProperties: true }), {
    description: 'Requirements in the form of this version.',
  }),
  lastUpdated: Type.String({ format: 'date-time' }),
  description: Type.Optional(Type.String()),
  serviceName: Type.String(),
  tags: Type.Array(Type.String()),
})

const listResources = {
  config,
  schema: {
    operationId: 'listBazaarResources',
    summary: 'The registry as an x402 Bazaar',
    description: 'What agents list at this station; entries of other Bazaars are not passed on.',
    tags,
    querystring: Type.Object({
      ...filters,
      limit: LimitSchema,
      offset: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: MAX_OFFSET,
          default: 0,
          description: 'How many entries are left out before the first.',
        }),
      ),
    }),
    response: {
      200: Type.Object({
        x402Version: Type.Integer(),
        items: Type.Array(ResourceSchema),
        pagination: Type.Object({
          limit: Type.Integer(),
          offset: Type.Integer(),
          total: Type.Integer(),
        }),
      }),
      ...errorResponses,
    },
  },
}

const searchResources = {
  config,
  schema: {
    operationId: 'searchBazaarResources',
    summary: 'Search the registry as an x402 Bazaar',
    tags,
    querystring: Type.Object({
      query: Type.Optional(Type.String({ maxLength: 200 })),
      ...filters,
      limit: LimitSchema,
      cursor: Type.Optional(
        Type.String({ maxLength: 6, description: '`pagination.cursor` of the previous page.' }),
      ),
    }),
    response: {
      200: Type.Object({
        x402Version: Type.Integer(),
        resources: Type.Array(ResourceSchema),
        partialResults: Type.Boolean({ description: 'There are more.' }),
        pagination: Type.Object({ limit: Type.Integer(), cursor: Nullable(Type.String()) }),
      }),
      ...errorResponses,
    },
  },
}

/** `/discovery/resources` and `/discovery/search`. */
export const bazaarDiscoveryRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, x402 } = app.services

  async function read(
    query: { type?: string; network?: string; scheme?: string; payTo?: string },
    q: string | null,
    limit: number,
    offset: number,
  ) {
    if (query.type === 'mcp') return { items: [], total: 0 }
    const { network, scheme = null, payTo = null } = query
    const wanted = {
      q,
      network: network === undefined ? null : (findCaip2Id(network) ?? network),
      scheme,
      payTo,
      now: new Date(clock.now()),
    }
    const { apis, total } = await x402.directory.bazaarPage(wanted, limit, offset)
    return { items: apis.map(toBazaarResource), total }
  }

  app.get('/discovery/resources', listResources, async ({ query }, reply) => {
    const { limit = PAGE_DEFAULT, offset = 0 } = query
    const { items, total } = await read(query, null, limit, offset)
    reply.header('cache-control', 'public, max-age=30')
    return { x402Version: X402_VERSION, items, pagination: { limit, offset, total } }
  })

  app.get('/discovery/search', searchResources, async ({ query }, reply) => {
    const { limit = PAGE_DEFAULT, cursor = '0' } = query
    if (!/^\d{1,5}$/.test(cursor))
      throw invalidInputError('/cursor', 'must be the cursor of an earlier page')
    const offset = Number(cursor)
    const { items, total } = await read(query, query.query ?? null, limit, offset)
    const next = offset + items.length
    const hasMore = items.length > 0 && next < total && next <= MAX_OFFSET
    reply.header('cache-control', 'public, max-age=30')
    return {
      x402Version: X402_VERSION,
      resources: items,
      partialResults: hasMore,
      pagination: { limit, cursor: hasMore ? String(next) : null },
    }
  })
}

/** An entry in its newest version of x402, with the offers of that version only. */
function toBazaarResource(api: PayableApi) {
  const offers = api.offers.filter(({ protocol }) => protocol === 'x402')
  const version = offers.some(({ versions }) => versions.includes(2)) ? 2 : 1
  const toRequirement = version === 2 ? toV2Requirement : toV1Requirement
  return {
    resource: api.url,
    type: 'http' as const,
    x402Version: version,
    accepts: offers
      .filter(({ versions }) => versions.includes(version))
      .map((offer) => toRequirement(offer, api)),
    lastUpdated: toIsoTime(api.lastSeenAt),
    ...(api.description === null ? {} : { description: api.description }),
    serviceName: api.name,
    tags: [...api.tags],
  }
}

const toV2Requirement = (offer: EndpointPaymentOffer) => ({
  scheme: offer.scheme,
  network: offer.network,
  amount: offer.amount,
  asset: offer.asset,
  payTo: offer.payTo,
  maxTimeoutSeconds: offer.maxTimeoutSeconds ?? DEFAULT_TIMEOUT_SECONDS,
})

const toV1Requirement = (offer: EndpointPaymentOffer, api: PayableApi) => ({
  scheme: offer.scheme,
  network: findV1NetworkName(offer.network ?? '') ?? offer.network,
  maxAmountRequired: offer.amount,
  resource: api.url,
  description: api.description ?? '',
  mimeType: '',
  payTo: offer.payTo,
  maxTimeoutSeconds: offer.maxTimeoutSeconds ?? DEFAULT_TIMEOUT_SECONDS,
  asset: offer.asset,
})
