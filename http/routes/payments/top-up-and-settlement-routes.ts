import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { ServiceError } from '../../../core/errors.ts'
import { fromUsdc, subtractMicros, toUsdc, ZERO_MICROS } from '../../../core/money.ts'
import { MIN_DEPOSIT } from '../../../domain/pricing.ts'
import { getAgentBalanceCommand } from '../../../payments/commands/agent-account-commands.ts'
import { toRequestPaymentContext } from '../../request-payment-context.ts'
import { parseIdempotencyKey } from '../../http-idempotency-keys.ts'
import {
  RequestUsdcAmountSchema,
  StrictBody,
  errorResponses,
  Nullable,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for top-ups by payment header, and for the state of settlements. */

const MIN_TOPUP_USDC = toUsdc(MIN_DEPOSIT)

const TopUpResponse = Type.Object({
  credited_usdc: ResponseUsdcAmountSchema,
  bonus_usdc: Type.Number({ description: 'Promotional credits of a first deposit.' }),
  released_usdc: Type.Number({
    description: 'Earlier deposits below the minimum, credited with it.',
  }),
  balance_usdc: Type.Number({ description: 'Available to spend.' }),
  settlement_id: Type.String(),
  settlement_url: Type.String(),
  tx_hash: Type.String(),
})

const SettlementSchema = Type.Object({
  settlement_id: Type.String(),
  id: Type.String(),
  state: Type.Enum(['claimed', 'due', 'submitted', 'unknown', 'settled', 'released', 'lost'], {
    description: 'State of the payment. `unknown` resolves by itself: do not pay again.',
  }),
  delivery: Type.Enum(['waiting', 'withheld', 'delivered', 'failed'], {
    description:
      'State of what was paid for. `withheld`: the answer exists and is released when the payment has settled.',
  }),
  network: Type.String(),
  network_id: Type.String({ description: 'The network in CAIP-2 form.' }),
  asset: Type.String(),
  payer: Type.String(),
  payer_address: Type.String({ description: 'The same without its network.' }),
  amount: Type.String({ description: 'In atomic units of the asset.' }),
  amount_atomic: Type.String({ description: 'The same.' }),
  price_usdc: ResponseUsdcAmountSchema,
  tx_hash: Nullable(Type.String()),
  created_at: Type.String({ format: 'date-time' }),
})

const topUp = {
  config: {
    auth: 'key',
    scope: 'tools',
    rate: 'write',
    bound: 'acts',
    servesFrozen: true,
  } as const,
  schema: {
    operationId: 'topUp',
    summary: 'Buy credits with a payment in the same request',
    tags: ['funds'],
    body: StrictBody({
      amount_usdc: Type.Optional(
        RequestUsdcAmountSchema('What is bought', {
          minimum: MIN_TOPUP_USDC,
          maximum: 10_000,
          default: MIN_TOPUP_USDC,
        }),
      ),
    }),
    response: { 200: TopUpResponse, ...errorResponses },
  },
}

const getSettlement = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getSettlement',
    summary: 'The state of a payment',
    tags: ['funds'],
    params: Type.Object({ id: Type.String({ pattern: '^stl_[0-9a-f]{32}$' }) }),
    response: { 200: SettlementSchema, ...errorResponses },
  },
}

/** Top-ups and settlements. */
export const topUpAndSettlementRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, config, deposits, paying } = app.services

  app.post('/api/credits/topup', topUp, async (request, reply) => {
    // The payment itself makes a repeat safe; an Idempotency-Key must still be well-formed.
    parseIdempotencyKey(request)
    const amount = fromUsdc(request.body.amount_usdc ?? MIN_TOPUP_USDC, '/amount_usdc')
    const { agentId } = request
    const bought = await paying.topUp(toRequestPaymentContext(request), agentId, amount)
    const funds = await actors.ask(agentId, getAgentBalanceCommand, {})
    const credit = await deposits.creditOf(bought.settlementId)
    reply.headers(bought.headers)
    if (bought.replayed) reply.header('idempotency-replayed', 'true')
    return {
      credited_usdc: toUsdc(amount),
      bonus_usdc: toUsdc(credit?.bonus ?? ZERO_MICROS),
      released_usdc: credit === null ? 0 : toUsdc(subtractMicros(credit.credited, amount)),
      balance_usdc: toUsdc(funds.available),
      settlement_id: bought.settlementId,
      settlement_url: `${config.publicUrl}/api/x402/settlements/${bought.settlementId}`,
      tx_hash: bought.tx,
    }
  })

  app.get('/api/x402/settlements/:id', getSettlement, async ({ params }, reply) => {
    const found = await paying.settlement(params.id)
    if (found === null) throw new ServiceError('settlement_not_found')
    reply.header('cache-control', 'no-store')
    return {
      settlement_id: found.id,
      id: found.id,
      state: found.state as 'claimed',
      delivery: found.delivery as 'waiting',
      network: found.chain,
      network_id: PAYMENT_NETWORKS[found.chain as keyof typeof PAYMENT_NETWORKS].caip2,
      asset: found.asset,
      payer: found.payer,
      payer_address: found.payer.split(':').at(-1) ?? found.payer,
      amount: found.amount,
      amount_atomic: found.amount,
      price_usdc: toUsdc(found.price),
      tx_hash: found.tx,
      created_at: found.createdAt.toISOString(),
    }
  })
}
