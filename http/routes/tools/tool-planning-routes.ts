import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { NOT_BLANK_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import { boundBackpackIdOf } from '../../auth/request-backpack-and-key-binding-check.ts'
import {
  errorResponses,
  Nullable,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes that find the tools for a goal. */

const tags = ['discovery']

const makePlan = {
  config: { auth: 'none', rate: 'plan' } as const,
  schema: {
    operationId: 'planTask',
    summary: 'Plan a task: its tools, their order and their cost',
    description:
      'A goal that names a crew uses that crew. Small talk uses no tool, and a plain question a search: see `matched` and `note`.',
    tags,
    body: Type.Object({
      task: Type.String({
        minLength: 10,
        maxLength: 500,
        pattern: NOT_BLANK_PATTERN,
        description: 'The task in plain words. Ten plans per hour and address.',
      }),
    }),
    response: {
      200: Type.Object({
        task: Type.String(),
        detected_intent: Type.String(),
        confidence: Type.Number({ minimum: 0, maximum: 1 }),
        matched: Type.Boolean({ description: 'False: no tool fits, and the steps are general.' }),
        steps: Type.Array(
          Type.Object({
            step: Type.Integer(),
            tool: Nullable(Type.String()),
            purpose: Type.String(),
            price_usdc: ResponseUsdcAmountSchema,
            endpoint: Type.String(),
            example: Nullable(
              Type.Unsafe<object>({
                type: 'object',
                additionalProperties: true,
                description:
                  'The request body, from the words of the task; `<…>` marks open values.',
              }),
            ),
            fill_in: Type.Array(Type.String(), {
              description: 'Fields of the example that are still to be filled in.',
            }),
          }),
        ),
        estimated_budget_usdc: ResponseUsdcAmountSchema,
        quick_wins: Type.Array(Type.String()),
        onboard_cmd: Type.String(),
        note: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const recommendTools = {
  config: { auth: 'optional', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'recommendTools',
    summary: 'Recommend tools that an agent does not call yet',
    description:
      'With a key of the agent, based on its calls and its profile. Other callers, and keys bound to a Backpack, get general recommendations, since the tools of an agent are private.',
    tags,
    params: Type.Object({ agentId: UuidSchema }),
    response: {
      200: Type.Object({
        agent_id: UuidSchema,
        recommendations: Type.Array(
          Type.Object({
            tool: Type.String(),
            confidence: Type.Number({
              minimum: 0,
              maximum: 1,
              description: 'How well it fits, times the rate at which its calls succeed.',
            }),
            reason: Type.String(),
            price_usdc: ResponseUsdcAmountSchema,
            success_rate: Nullable(
              Type.Number({ description: 'Measured over seven days; null without calls.' }),
            ),
          }),
        ),
        based_on: Type.Object({
          tools_used: Type.Integer({
            description:
              'Tools called publicly in the last 30 days; 0 for callers other than the agent.',
          }),
        }),
      }),
      ...errorResponses,
    },
  },
}

/** Plans and searches. Nothing is called or charged. */
export const toolPlanningRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { planning } = app.services

  app.post('/api/agent/plan', makePlan, async ({ body: { task } }, reply) =>
    reply.send((await planning.plan(task)) as never),
  )

  app.get('/api/recommendations/:agentId', recommendTools, async (request) => {
    const agentId = request.params.agentId.toLowerCase()
    const own = request.agentId === agentId && boundBackpackIdOf(request) === null
    const { used, suggestions } = await planning.recommend(agentId, { own })
    return {
      agent_id: agentId,
      recommendations: [...suggestions],
      based_on: { tools_used: used.length },
    }
  })
}
