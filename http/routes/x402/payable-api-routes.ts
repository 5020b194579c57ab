import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { findCaip2Id } from '../../../chain/x402/x402-network-names.ts'
import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../../core/limits.ts'
import { fromUsdc } from '../../../core/money.ts'
import { SINGLE_LINE_TEXT_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import type { PayableApi } from '../../../persistence/x402/payable-api-store.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  errorResponses,
  PathIdSchema,
  Nullable,
  schemaRef,
  StrictBody,
  RequestUsdcAmountSchema,
  UuidSchema,
  WebAddress,
} from '../../schemas/shared-schemas.ts'
import {
  OwnPayableApiSchema,
  PayableApiHistorySchema,
  PayableApiSchema,
  PayableOfferSchema,
  toPayableApiView,
  toPayableApiPriceChangeView,
  toEndpointProbeView,
  EndpointProbeSchema,
} from './payable-api-views.ts'

/** Routes of the registry of APIs that ask for a payment, and of probes. */

const tags = ['registry']
const owned = { auth: 'key', scope: 'funds' } as const
const params = Type.Object({ id: PathIdSchema })
const ApiAddress = WebAddress('An http or https address on the standard port of its scheme.')
const PLACE_PATTERN = /^-?\d{1,19} [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const MAX_PLACE = 2n ** 63n - 1n

const listApis = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'listPayableApis',
    summary: 'APIs that agents can pay for by the call',
    description:
      'What agents list here, and what the Bazaars of the operator list. Names and descriptions are texts of strangers.',
    tags,
    querystring: Type.Object({
      q: Type.Optional(
        Type.String({
          maxLength: 200,
          description: 'Words that the name, description, tags or address contains.',
        }),
      ),
      network: Type.Optional(
        Type.String({
          maxLength: 64,
          description: 'A network that it takes: `base`, `solana`, or CAIP-2 as `eip155:8453`.',
        }),
      ),
      max_price: Type.Optional(
        Type.Number({ minimum: 0, maximum: 1_000_000, description: 'The highest price in USDC.' }),
      ),
      sort: Type.Optional(
        Type.Enum(['newest', 'price', 'latency', 'uptime'], {
          default: 'newest',
          description: 'What comes first; entries without the figure come last.',
        }),
      ),
      ...PaginationQuery,
    }),
    response: {
      200: Type.Object({
        apis: Type.Array(schemaRef(PayableApiSchema)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const getApi = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getPayableApi',
    summary: 'One listed API with its price history',
    tags,
    params,
    response: { 200: PayableApiHistorySchema, ...errorResponses },
  },
}

const registerApi = {
  config: owned,
  schema: {
    operationId: 'registerPayableApi',
    summary: 'List an API that asks for a payment',
    description: `The address is probed first and must ask for a payment by x402 or MPP. The answer names a token: once it stands in a file of the origin, POST to \`verify_url\` and the listing is probed each hour. A listing that no probe has seen for ${LIMITS.apiUnseenDays} days ends; listing the same address again renews it. Another agent's listing without proof is yours once your token stands in the file. At most ${LIMITS.registeredApis} an agent.`,
    tags,
    body: StrictBody({
      name: Type.String({ minLength: 1, maxLength: 80, pattern: SINGLE_LINE_TEXT_PATTERN }),
      url: ApiAddress,
      price_usdc: RequestUsdcAmountSchema('The price of a call as you state it'),
    }),
    response: { 200: OwnPayableApiSchema, ...errorResponses },
  },
}

const verifyApi = {
  config: owned,
  schema: {
    operationId: 'verifyPayableApi',
    summary: 'Prove that the origin of your listing is yours',
    description: 'The file at `proof.url` must have the token as a line of its own.',
    tags,
    params,
    response: { 200: OwnPayableApiSchema, ...errorResponses },
  },
}

const removeApi = {
  config: owned,
  schema: {
    operationId: 'removePayableApi',
    summary: 'Remove your listing',
    tags,
    params,
    response: {
      200: Type.Object({ api_id: UuidSchema, removed: Type.Boolean() }),
      ...errorResponses,
    },
  },
}

const probeAddress = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'probeAddress',
    summary: 'Ask an address how it wants to be paid',
    description: `Sends one GET without a payment and follows no redirection. A host is probed once a minute for all callers, and the answer is repeated for that time; another address of the same host is 429 meanwhile. At most ${LIMITS.probesPerMinute} probes a minute for each address of a caller.`,
    tags,
    querystring: Type.Object({ url: ApiAddress }),
    response: { 200: EndpointProbeSchema, ...errorResponses },
  },
}

/** Lists, shows, registers, proves, removes and probes. */
export const payableApiRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, config, once, x402 } = app.services
  app.addSchema(PayableOfferSchema)
  app.addSchema(PayableApiSchema)
  const now = () => new Date(clock.now())
  const limit = (request: FastifyRequest, reply: FastifyReply) =>
    app.limits.consumeForAddress(request, reply, 'probe')

  const presentOwn = (api: PayableApi, agentId: string) => ({
    ...toPayableApiView(api),
    proof:
      api.verifiedAt === null
        ? {
            ...x402.challenge.tokenFor(agentId, api.url),
            verify_url: `${config.publicUrl}/api/x402/apis/${api.apiId}/verify`,
          }
        : null,
  })

  /** Whether a listing may replace that of another agent: only by proof, and only one without. */
  async function provesAgainstOther(agentId: string, url: string): Promise<boolean> {
    const owner = await x402.apis.ownerOf(url)
    if (owner === null || owner.agentId === agentId) return false
    if (owner.isProven) throw new ServiceError('api_listed')
    await x402.challenge
      .verify(agentId, url, new AbortController().signal)
      .catch((error: unknown) => {
        const isUnproven = error instanceof ServiceError && error.code === 'origin_unproven'
        throw isUnproven ? new ServiceError('api_listed', { ...error.details }, error) : error
      })
    return true
  }

  app.get('/api/x402/apis', listApis, async ({ query }, reply) => {
    const { q = null, network, max_price: maxPrice, sort = 'newest' } = query
    const wanted = {
      q,
      network: network === undefined ? null : parseNetwork(network),
      maxPriceMicros: maxPrice === undefined ? null : fromUsdc(maxPrice, '/max_price'),
      order: sort,
      now: now(),
    }
    const { rows, next_cursor } = await paginate(
      query,
      PLACE_PATTERN,
      (count, after) => x402.directory.list(wanted, count, parsePlace(after)),
      ({ place, api }) => `${place} ${api.apiId}`,
    )
    reply.header('cache-control', 'public, max-age=5')
    return { apis: rows.map(({ api }) => toPayableApiView(api)), count: rows.length, next_cursor }
  })

  app.get('/api/x402/apis/:id', getApi, async ({ params: { id } }, reply) => {
    const api = isUuid(id) ? await x402.directory.find(id, now()) : null
    if (api === null) throw new ServiceError('api_not_found')
    const changes = await x402.apis.priceChanges(id)
    reply.header('cache-control', 'public, max-age=5')
    return { ...toPayableApiView(api), price_history: changes.map(toPayableApiPriceChangeView) }
  })

  app.post('/api/x402/register', registerApi, async (request, reply) => {
    const { agentId } = request
    const { name, url: given, price_usdc: price } = request.body
    const idempotent = toIdempotentRequest(request)
    const declaredMicros = fromUsdc(price, '/price_usdc')
    const url = x402.prober.parse(given)
    return sendIdempotentReply(
      reply,
      once.runThenRecord(idempotent, async () => {
        await limit(request, reply)
        const isProven = await provesAgainstOther(agentId, url.href)
        const { probe } = await x402.prober.probeForListing(url, agentId)
        if (probe.offers.length === 0)
          throw new ServiceError('not_payable', {
            status_seen: probe.status,
            problems: probe.problems,
          })
        const wanted = { agentId, url: url.href, name, declaredMicros, probe, isProven }
        const put = await x402.apis.put(wanted, now())
        if (put.kind === 'taken') throw new ServiceError('api_listed')
        if (put.kind === 'full')
          throw new ServiceError('limit_reached', { limit: LIMITS.registeredApis, of: 'APIs' })
        return { status: 200, body: presentOwn(put.api, agentId) }
      }),
    )
  })

  app.post('/api/x402/apis/:id/verify', verifyApi, async (request, reply) => {
    const { agentId } = request
    const { id } = request.params
    return sendIdempotentReply(
      reply,
      once.runThenRecord(toIdempotentRequest(request), async () => {
        const api = isUuid(id) ? await x402.apis.find(id) : null
        if (api?.agentId !== agentId) throw new ServiceError('api_not_found')
        if (api.verifiedAt === null) {
          await limit(request, reply)
          await x402.challenge.verify(agentId, api.url, new AbortController().signal)
        }
        const proven = await x402.apis.prove(id, agentId, now())
        if (proven === null) throw new ServiceError('api_not_found')
        return { status: 200, body: presentOwn(proven, agentId) }
      }),
    )
  })

  app.delete('/api/x402/apis/:id', removeApi, async (request, reply) => {
    const { id } = request.params
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const removed = isUuid(id) && (await x402.apis.remove(tx, id, request.agentId))
        if (!removed) throw new ServiceError('api_not_found')
        return { status: 200, body: { api_id: id, removed } }
      }),
    )
  })

  app.get('/api/x402/probe', probeAddress, async (request, reply) => {
    const url = x402.prober.parse(request.query.url)
    await limit(request, reply)
    const { probe, isCached } = await x402.prober.probe(url)
    return toEndpointProbeView(probe, isCached)
  })
}

function parseNetwork(name: string): string {
  const network = findCaip2Id(name)
  if (network !== null) return network
  throw invalidInputError('/network', 'must be a network such as base or eip155:8453')
}

function parsePlace(position: string | null) {
  if (position === null) return null
  const [text = '', apiId = ''] = position.split(' ')
  const place = BigInt(text)
  if (place > MAX_PLACE || place < -MAX_PLACE)
    throw invalidInputError('/cursor', 'must be the next_cursor of an earlier page')
  return { place, apiId }
}
