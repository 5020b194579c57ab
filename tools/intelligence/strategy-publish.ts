import Type from 'typebox'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import { STRATEGY_PUBLISH_PRICE } from '../../domain/pricing.ts'
import {
  EVM_TX_HASH_PATTERN,
  SINGLE_LINE_TEXT_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'

/** The tool `strategy-publish`: publishes a strategy for other agents. */

export default defineTool({
  slug: 'strategy_publish',
  name: 'Strategy Publish',
  category: 'intelligence',
  description:
    'Publishes a strategy that other agents can fork; each fork pays its author. A transaction hash may serve as proof.',
  tags: ['strategies', 'royalties', 'sharing'],
  useCases: ['Earn from a proven way of working', 'Share a setup with other agents'],
  examples: [
    {
      title: 'Weekend gas batcher',
      description: 'Collects transfers during the week and sends them on Sunday mornings UTC.',
      strategy_tool: 'price_feed',
      chain: 'base',
      params: { max_gwei: 0.01 },
    },
  ],
  access: 'paid',
  keyRequired: true,
  price: STRATEGY_PUBLISH_PRICE,
  effect: 'internal',
  actsOnOthers: true,
  timeoutMs: 8_000,
  input: Type.Object(
    {
      title: Type.String({
        minLength: 1,
        maxLength: 128,
        pattern: SINGLE_LINE_TEXT_PATTERN,
      }),
      description: Type.String({ minLength: 1, maxLength: 4_000, pattern: NOT_BLANK_PATTERN }),
      strategy_tool: Type.Optional(
        Type.String({
          pattern: '^[A-Za-z0-9_-]{1,64}$',
          description: 'The tool it works with: `tool` in `params`, and at POST /api/strategies.',
        }),
      ),
      chain: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9:_-]{1,64}$' })),
      params: Type.Optional(
        Type.Unsafe<Record<string, unknown>>({
          type: 'object',
          additionalProperties: true,
          description: 'Parameters of the strategy; at most 8 KiB.',
        }),
      ),
      tx_hash: Type.Optional(
        Type.String({
          pattern: EVM_TX_HASH_PATTERN,
          description: 'A transaction on `chain` that shows the strategy at work.',
        }),
      ),
      is_public: Type.Optional(Type.Boolean({ default: true })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    id: Type.String({ format: 'uuid' }),
    title: Type.String(),
    status: Type.Enum(['published']),
    is_public: Type.Boolean(),
    tx_hash: Type.Union([Type.String(), Type.Null()]),
    tx_verified: Type.Boolean(),
    created_at: Type.String({ format: 'date-time' }),
  }),
  normalise: unwrapParams,
  async preflight({ chain, params, tx_hash }, { strategies }) {
    if (
      params !== undefined &&
      Buffer.byteLength(JSON.stringify(params)) > LIMITS.strategyParamsBytes
    )
      throw invalidInputError('/params', `must be at most ${LIMITS.strategyParamsBytes} bytes`)
    if (tx_hash === undefined) return
    if (chain === undefined) throw invalidInputError('/chain', 'is needed with tx_hash')
    if ((await strategies.verifyTransaction(chain.toLowerCase(), tx_hash.toLowerCase())) === 'bad')
      throw new ServiceError('proof_invalid', { tx_hash, chain })
  },
  async run(input, { caller, callId, ghost, now, stage, strategies }) {
    const at = now().getTime()
    const [id, createdAt] = [newUuidV7(at), new Date(at).toISOString()]
    const chain = input.chain?.toLowerCase() ?? null
    const tx = input.tx_hash?.toLowerCase() ?? null
    const proof =
      tx === null || chain === null ? 'unchecked' : await strategies.verifyTransaction(chain, tx)
    if (proof === 'bad') throw new ServiceError('proof_invalid', { tx_hash: tx, chain })
    const isPublic = input.is_public ?? true
    stage.row('strategies', {
      id,
      agent_id: caller.agentId,
      title: input.title,
      description: input.description,
      tool: input.strategy_tool ?? null,
      chain,
      params: input.params ?? {},
      tx_hash: tx,
      tx_verified: proof === 'good',
      is_public: isPublic,
      forked_from: null,
      call_id: callId,
      created_at: createdAt,
      ghost: ghost !== 'off',
    })
    return {
      id,
      title: input.title,
      status: 'published' as const,
      is_public: isPublic,
      tx_hash: tx,
      tx_verified: proof === 'good',
      created_at: createdAt,
    }
  },
})

/**
 * Unwraps fields given in `params`, as every tool accepts; the strategy's own `params` are then nested. Its
 * `tool` field has another name, because `tool` is the slug of the call.
 */
function unwrapParams({ params, ...top }: Record<string, unknown>): Record<string, unknown> {
  if ('title' in top || typeof params !== 'object' || params === null || !('title' in params))
    return params === undefined ? top : { ...top, params }
  const { tool, ...inner } = params as Record<string, unknown>
  return { ...(tool === undefined ? {} : { strategy_tool: tool }), ...inner, ...top }
}
