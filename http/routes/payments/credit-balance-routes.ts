import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { getBackpackCommand } from '../../../actors/commands/backpacks-commands.ts'
import { utcDay } from '../../../core/clock.ts'
import { addMicros, subtractMicros, toUsdc } from '../../../core/money.ts'
import { toTaskPassJson } from '../../../domain/prepaid-task-passes.ts'
import { getAgentBalanceCommand } from '../../../payments/commands/agent-account-commands.ts'
import type { AgentCallUsage } from '../../../persistence/calls/call-log-store.ts'
import { boundBackpackIdOf } from '../../auth/request-backpack-and-key-binding-check.ts'
import { errorResponses, ResponseUsdcAmountSchema } from '../../schemas/shared-schemas.ts'
import { TaskPassSchema } from '../../schemas/task-pass-schema.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'

/** Routes for an agent's balance and usage. */

const getBalance = {
  config: { auth: 'key', scope: 'read', bound: 'reads', ownerSession: true } as const,
  schema: {
    operationId: 'getBalance',
    summary: 'Your credits and usage',
    tags: ['funds'],
    response: {
      200: Type.Object({
        balance_usdc: Type.Number({ description: 'Available to spend.' }),
        promo_usdc: ResponseUsdcAmountSchema,
        cash_usdc: ResponseUsdcAmountSchema,
        held_usdc: Type.Number({ description: 'Reserved by running calls.' }),
        royalties_usdc: Type.Number({
          description: 'Paid royalties for reads of your Hive entries.',
        }),
        pending_royalty_usdc: Type.Number({
          description: 'Royalties earned that the pool cannot pay yet.',
        }),
        tier: Type.String({ description: 'The alert level of the balance.' }),
        usage: Type.Object(
          {
            calls_today: Type.Integer(),
            spent_today_usdc: ResponseUsdcAmountSchema,
            calls_total: Type.Integer(),
            spent_total_usdc: ResponseUsdcAmountSchema,
          },
          { description: 'Of the whole agent; with a bound key, of its Backpack.' },
        ),
        passes: Type.Array(TaskPassSchema, {
          description: 'Task passes that still pay calls, the soonest to expire first.',
        }),
        fund_url: Type.String(),
      }),
      ...errorResponses,
    },
  },
}

/** Credits of an agent and its usage. */
export const creditBalanceRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, config, royalties } = app.services
  app.get('/api/credits/balance', getBalance, async (request) => {
    const { agentId } = request
    const [funds, usage, { earned, pending }] = await Promise.all([
      actors.ask(agentId, getAgentBalanceCommand, {}),
      readUsage(app.services, request),
      royalties.of(agentId),
    ])
    return {
      balance_usdc: toUsdc(funds.available),
      promo_usdc: toUsdc(funds.promo),
      cash_usdc: toUsdc(funds.cash),
      held_usdc: toUsdc(addMicros(funds.held, funds.reserved)),
      royalties_usdc: toUsdc(subtractMicros(earned, pending)),
      pending_royalty_usdc: toUsdc(pending),
      tier: funds.tier,
      passes: funds.passes.map(toTaskPassJson),
      usage: {
        calls_today: usage.callsToday,
        spent_today_usdc: toUsdc(usage.spentToday),
        calls_total: usage.callsTotal,
        spent_total_usdc: toUsdc(usage.spentTotal),
      },
      fund_url: `${config.publicUrl}/fund/${agentId}`,
    }
  })
}

/** Returns the usage visible to the request's key: its Backpack for a bound key, else the whole agent. */
async function readUsage(
  { actors, callLog, clock }: HttpServices,
  request: FastifyRequest,
): Promise<AgentCallUsage> {
  const { agentId } = request
  const backpackId = boundBackpackIdOf(request)
  if (backpackId === null) return callLog.usageOf(agentId)
  const today = new Date(utcDay(clock.now()))
  const touch = [{ kind: 'backpack', id: backpackId }] as const
  const [pack, callsToday] = await Promise.all([
    actors.ask(agentId, getBackpackCommand, { backpackId }, { touch }),
    callLog.callsWithin(agentId, backpackId, today),
  ])
  const { calls: callsTotal, spentDay: spentToday, spentTotal } = pack
  return { callsToday, spentToday, callsTotal, spentTotal }
}
