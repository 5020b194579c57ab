import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { toUsdc, type Micros } from '../../../core/money.ts'
import { MIN_TIP } from '../../../domain/pricing.ts'
import { SINGLE_LINE_TEXT_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import {
  tipAgentCommand,
  type CreditTransferResult,
} from '../../../payments/commands/agent-account-commands.ts'
import {
  RequestUsdcAmountSchema,
  StrictBody,
  errorResponses,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'
import { payAgent } from '../../actions/agent-tip-and-transfer-handler.ts'

/** Route for tips between agents. */

const tipAgent = {
  config: { auth: 'key', scope: 'funds', bound: 'pays' } as const,
  schema: {
    operationId: 'tip',
    summary: 'Tip another agent',
    tags: ['funds'],
    body: StrictBody({
      to_agent_id: UuidSchema,
      amount_usdc: RequestUsdcAmountSchema('The tip, its fee included', {
        minimum: toUsdc(MIN_TIP),
      }),
      note: Type.Optional(Type.String({ maxLength: 280, pattern: SINGLE_LINE_TEXT_PATTERN })),
    }),
    response: {
      200: Type.Object({
        transfer_id: UuidSchema,
        to_agent_id: UuidSchema,
        amount_usdc: ResponseUsdcAmountSchema,
        fee_usdc: ResponseUsdcAmountSchema,
        received_usdc: ResponseUsdcAmountSchema,
        balance_usdc: ResponseUsdcAmountSchema,
      }),
      ...errorResponses,
    },
  },
}

/** Tips another agent: 95 % go to the agent, 5 % to the treasury. */
export const tipRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.post('/api/tip', tipAgent, async (request, reply) => {
    const { note: memo = null } = request.body
    return payAgent(request, reply, {
      permission: 'tip',
      command: tipAgentCommand,
      memo,
      present: presentTip,
    })
  })
}

const presentTip = (tipped: CreditTransferResult, toAgentId: string, amount: Micros) => ({
  transfer_id: tipped.transferId,
  to_agent_id: toAgentId,
  amount_usdc: toUsdc(amount),
  fee_usdc: toUsdc(tipped.fee),
  received_usdc: toUsdc(tipped.amount),
  balance_usdc: toUsdc(tipped.balance),
})
