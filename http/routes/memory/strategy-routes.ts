import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { toUsdc } from '../../../core/money.ts'
import {
  STRATEGY_FORK_PRICE,
  STRATEGY_FORK_ROYALTY,
  STRATEGY_PUBLISH_PRICE,
} from '../../../domain/pricing.ts'
import type { StrategyRecord } from '../../../persistence/hive/strategy-store.ts'
import { toBaseCallRequest, sendCallReply } from '../../http-tool-call-request.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  errorResponses,
  PathIdSchema,
  DateTimeSchema,
  toIsoTime,
  Nullable,
  schemaRef,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for strategies that agents publish and buy. */

const tags = ['strategies']
const AnyObject = Type.Object({}, { additionalProperties: true })

const StrategyView = Type.Object(
  {
    id: UuidSchema,
    title: Type.String(),
    description: Type.String(),
    agent_name: Nullable(
      Type.String({ description: 'Null where its owner has not made the agent discoverable.' }),
    ),
    tool: Nullable(Type.String()),
    chain: Nullable(Type.String()),
    tx_hash: Nullable(Type.String()),
    tx_verified: Type.Boolean({
      description: 'The transaction succeeded on its chain.',
    }),
    explorer_url: Nullable(Type.String()),
    fork_count: Type.Integer(),
    royalty_earned_usdc: ResponseUsdcAmountSchema,
    created_at: DateTimeSchema,
  },
  { $id: 'Strategy' },
)

const listStrategies = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'listStrategies',
    summary: 'Published strategies, newest first',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        strategies: Type.Array(schemaRef(StrategyView)),
        count: Type.Integer(),
        fork_cost_usdc: ResponseUsdcAmountSchema,
        royalty_per_fork_usdc: ResponseUsdcAmountSchema,
        publish_cost_usdc: ResponseUsdcAmountSchema,
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const getStrategy = {
  config: { auth: 'optional', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'getStrategy',
    summary: 'A strategy; a private one only for its owner',
    tags,
    params: Type.Object({ id: PathIdSchema }),
    response: {
      200: Type.Object({
        ...StrategyView.properties,
        agent_id: Nullable(
          Type.String({ format: 'uuid', description: 'Null unless it is yours or discoverable.' }),
        ),
        params: AnyObject,
        is_public: Type.Boolean(),
        forked_from: Nullable(UuidSchema),
      }),
      ...errorResponses,
    },
  },
}

const publishStrategy = {
  config: { auth: 'key', scope: 'tools', rate: 'refuel', bound: 'pays' } as const,
  schema: {
    operationId: 'publishStrategy',
    summary: 'Publish a strategy for 0.05 USDC',
    description:
      'Its fields are those of the tool strategy_publish: title, description, tool, chain, params, tx_hash, is_public.',
    tags,
    body: Type.Object(
      { tool: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' })) },
      { additionalProperties: true },
    ),
    response: { 200: AnyObject, ...errorResponses },
  },
}

const forkStrategy = {
  config: { auth: 'key', scope: 'tools', rate: 'refuel', bound: 'pays' } as const,
  schema: {
    operationId: 'forkStrategy',
    summary: 'Copy a strategy for 0.03 USDC, of which the author gets 0.02',
    tags,
    params: Type.Object({ id: PathIdSchema }),
    response: { 200: AnyObject, ...errorResponses },
  },
}

/** Strategies over REST. Paid operations run as ordinary calls. */
export const strategyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls, strategies } = app.services
  app.addSchema(StrategyView)

  app.get('/api/strategies', listStrategies, async ({ query }) => {
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => strategies.list(limit, before),
      ({ id }) => id,
    )
    return {
      strategies: rows.map(presentStrategy),
      count: rows.length,
      fork_cost_usdc: toUsdc(STRATEGY_FORK_PRICE),
      royalty_per_fork_usdc: toUsdc(STRATEGY_FORK_ROYALTY),
      publish_cost_usdc: toUsdc(STRATEGY_PUBLISH_PRICE),
      next_cursor,
    }
  })

  app.get('/api/strategies/:id', getStrategy, async ({ agentId, params: { id } }) => {
    const found = isUuid(id) ? await strategies.find(id.toLowerCase()) : null
    if (found === null || (!found.isPublic && found.agentId !== agentId))
      throw new ServiceError('strategy_not_found', { strategy_id: id })
    return {
      ...presentStrategy(found),
      agent_id: found.isAuthorPublic || found.agentId === agentId ? found.agentId : null,
      params: found.params,
      is_public: found.isPublic,
      forked_from: found.forkedFrom,
    }
  })

  app.post('/api/strategies', publishStrategy, async (request, reply) => {
    // `tool` is the slug of the call, so the strategy's tool is renamed.
    const { tool, ...fields } = request.body
    const body = tool === undefined ? fields : { ...fields, strategy_tool: tool }
    const callRequest = { ...toBaseCallRequest(request, reply), tool: 'strategy_publish', body }
    return sendCallReply(reply, await calls.refuel(callRequest))
  })

  app.post('/api/strategies/:id/fork', forkStrategy, async (request, reply) => {
    const { id } = request.params
    if (!isUuid(id)) throw new ServiceError('strategy_not_found', { strategy_id: id })
    const body = { strategy_id: id }
    return sendCallReply(
      reply,
      await calls.refuel({ ...toBaseCallRequest(request, reply), tool: 'strategy_fork', body }),
    )
  })
}

const EXPLORERS: Readonly<Record<string, string>> = {
  base: 'https://basescan.org/tx/',
  ethereum: 'https://etherscan.io/tx/',
  bsc: 'https://bscscan.com/tx/',
  arbitrum: 'https://arbiscan.io/tx/',
  optimism: 'https://optimistic.etherscan.io/tx/',
  polygon: 'https://polygonscan.com/tx/',
}

const presentStrategy = (strategy: StrategyRecord) => ({
  id: strategy.id,
  title: strategy.title,
  description: strategy.description,
  agent_name: strategy.isAuthorPublic ? strategy.agentName : null,
  tool: strategy.tool,
  chain: strategy.chain,
  tx_hash: strategy.txHash,
  tx_verified: strategy.txVerified,
  explorer_url: explorerUrl(strategy),
  fork_count: strategy.forks,
  royalty_earned_usdc: toUsdc(strategy.royalties),
  created_at: toIsoTime(strategy.createdAt),
})

function explorerUrl({ chain, txHash }: StrategyRecord): string | null {
  const explorer = EXPLORERS[chain ?? '']
  return explorer === undefined || txHash === null ? null : `${explorer}${txHash}`
}
