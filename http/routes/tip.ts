import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { toUsdc, type Micros } from '../../core/money.ts'
import { SMALLEST_TIP } from '../../core/prices.ts'
import { LABEL } from '../../core/said.ts'
import { tip, type Paid } from '../../payments/commands/purse.ts'
import { Amount, Body, failures, Usdc, Uuid } from '../schemas.ts'
import { payAgent } from './pay-agent.ts'

const tipAgent = {
  config: { auth: 'key', scope: 'funds', bound: 'pays' } as const,
  schema: {
    operationId: 'tip',
    summary: 'Tip another agent',
    tags: ['funds'],
    body: Body({
      to_agent_id: Uuid,
      amount_usdc: Amount('The tip, its fee included', { minimum: toUsdc(SMALLEST_TIP) }),
      note: Type.Optional(Type.String({ maxLength: 280, pattern: LABEL })),
    }),
    response: {
      200: Type.Object({
        transfer_id: Uuid,
        to_agent_id: Uuid,
        amount_usdc: Usdc,
        fee_usdc: Usdc,
        received_usdc: Usdc,
        balance_usdc: Usdc,
      }),
      ...failures,
    },
  },
}

/** A tip: 95 % reach the other agent, 5 % the treasury. */
export const tipRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.post('/api/tip', tipAgent, async (request, reply) => {
    const { note: memo = null } = request.body
    return payAgent(request, reply, {
      deed: 'tip',
      permission: 'tip',
      command: tip,
      memo,
      present,
    })
  })
}

const present = (tipped: Paid, toAgentId: string, amount: Micros) => ({
  transfer_id: tipped.transferId,
  to_agent_id: toAgentId,
  amount_usdc: toUsdc(amount),
  fee_usdc: toUsdc(tipped.fee),
  received_usdc: toUsdc(tipped.amount),
  balance_usdc: toUsdc(tipped.balance),
})
