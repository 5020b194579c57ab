import { PublicAuthorField } from '../public-author-field.ts'
import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import { STRATEGY_FORK_PRICE, STRATEGY_FORK_ROYALTY } from '../../domain/pricing.ts'
import type { ToolPreflightContext } from '../define-tool.ts'
import { defineTool } from '../define-tool.ts'
import type { PublishedStrategy } from '../../providers/hive/hive-port.ts'

/** The tool `strategy-fork`: copies another agent's strategy. */

export default defineTool({
  slug: 'strategy_fork',
  name: 'Strategy Fork',
  category: 'intelligence',
  description: 'Copies a published strategy; 0.02 of the price goes to its author.',
  tags: ['strategies', 'royalties', 'sharing'],
  useCases: ['Start from what works for others', 'Adapt a strategy to another chain'],
  examples: [{ strategy_id: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4f' }],
  access: 'paid',
  keyRequired: true,
  sharesPrice: true,
  price: STRATEGY_FORK_PRICE,
  effect: 'internal',
  timeoutMs: 5_000,
  input: Type.Object(
    { strategy_id: Type.String({ format: 'uuid' }) },
    { additionalProperties: false },
  ),
  output: Type.Object({
    fork_id: Type.String({ format: 'uuid' }),
    forked_from: Type.String({ format: 'uuid' }),
    author_agent_id: PublicAuthorField,
    title: Type.String(),
    description: Type.String(),
    tool: Type.Union([Type.String(), Type.Null()]),
    chain: Type.Union([Type.String(), Type.Null()]),
    params: Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true }),
    royalty_usdc: Type.Number({
      description:
        "The author's share of the price. The part paid with promotional credits returns to the station where those cannot be transferred.",
    }),
    created_at: Type.String({ format: 'date-time' }),
  }),
  async preflight({ strategy_id }, context) {
    await findForkableStrategy(strategy_id, context)
  },
  async run({ strategy_id }, context) {
    const { caller, callId, ghost, now, stage } = context
    const strategy = await findForkableStrategy(strategy_id, context)
    const at = now().getTime()
    const [forkId, createdAt] = [newUuidV7(at), new Date(at).toISOString()]
    const { id, agentId: author, title, description, tool, chain, params } = strategy
    const copy = { title, description, tool, chain, params }
    stage.row('strategies', {
      ...copy,
      id: forkId,
      agent_id: caller.agentId,
      tx_hash: null,
      tx_verified: false,
      is_public: false,
      forked_from: id,
      call_id: callId,
      created_at: createdAt,
      ghost: ghost !== 'off',
    })
    const fork = {
      fork_id: forkId,
      strategy_id: id,
      author,
      agent_id: caller.agentId,
      call_id: callId,
      at: createdAt,
    }
    const stagedWrites = (credited: Micros) => {
      const details = { source: 'strategy_fork', amount_usdc: toUsdc(credited), strategy_id: id }
      const row = { ...fork, royalty_micros: Number(credited) }
      const events =
        credited > ZERO_MICROS ? [{ type: 'topup' as const, to: author, data: details }] : []
      return { rows: [{ table: 'strategy_forks', row }], events }
    }
    stage.credit({ to: author, amount: STRATEGY_FORK_ROYALTY, withoutFee: true, stagedWrites })
    return {
      fork_id: forkId,
      forked_from: id,
      author_agent_id: strategy.isAuthorPublic ? author : null,
      ...copy,
      royalty_usdc: toUsdc(STRATEGY_FORK_ROYALTY),
      created_at: createdAt,
    }
  },
})

/** Throws for a missing or private strategy, and for the caller's own. */
async function findForkableStrategy(
  id: string,
  { caller, strategies }: ToolPreflightContext,
): Promise<PublishedStrategy> {
  const strategy = await strategies.find(id.toLowerCase())
  const own = strategy?.agentId === caller.agentId
  if (strategy === null || (!strategy.isPublic && !own))
    throw new ServiceError('strategy_not_found', { strategy_id: id })
  if (own) throw new ServiceError('own_strategy', { strategy_id: id })
  return strategy
}
