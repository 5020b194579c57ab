import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { NOT_BLANK_PATTERN } from '../../../core/validation/schema-patterns.ts'
import { boundBackpackIdOf } from '../../auth/backpack-binding.ts'
import { errorResponses, Nullable, UsdcSchema, UuidSchema } from '../../schemas/shared-schemas.ts'

/** Routes that find the tools for a goal. */

const tags = ['discovery']

const makePlan = {
  config: { auth: 'none', rate: 'plan' } as const,
  schema: {
    operationId: 'planTask',
    summary: 'Which tools a task takes, in which order, and what they cost',
    description:
      'A goal that names a crew is met by it. Small talk is met by no tool, and a plain question by a search: `matched` and `note` say so.',
    tags,
    body: Type.Object({
      task: Type.String({
        minLength: 10,
        maxLength: 500,
        pattern: NOT_BLANK_PATTERN,
        description: 'What is to be done, in plain words. Ten plans an hour and address.',
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
            price_usdc: UsdcSchema,
            endpoint: Type.String(),
            example: Nullable(
              Type.Unsafe<object>({
                type: 'object',
                additionalProperties: true,
                description:
                  'What to send, from the words of the task; `<…>` stands for what they leave open.',
              }),
            ),
            fill_in: Type.Array(Type.String(), {
              description: 'Fields of the example that are still to be filled in.',
            }),
          }),
        ),
        estimated_budget_usdc: UsdcSchema,
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
    summary: 'Tools an agent does not call yet and may want to',
    description:
      'With a key of the agent, from what it calls and what it says of itself. Anybody else, and a key that is bound to a Backpack, gets what every agent may begin with: which tools an agent calls is told to it alone.',
    tags,
    params: Type.Object({ agentId: UuidSchema }),
    response: {
      200: Type.Object({
        agent_id: UuidSchema,
        recommendations: Type.Array(
          Type.Object({
            tool: Type.String(),
            confidence: Type.Number({ minimum: 0, maximum: 1 }),
            reason: Type.String(),
            price_usdc: UsdcSchema,
          }),
        ),
        based_on: Type.Object({
          tools_used: Type.Integer({
            description: 'Called in public in the last 30 days; 0 for anybody but the agent.',
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
