import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { hasFixedStationOnlyPrice } from '../../../calls/admitted-call.ts'
import { toUsdc } from '../../../core/money.ts'
import {
  MAX_PASS_CALL_PRICE,
  taskPassCoversListPrice,
  toTaskPassJson,
  TASK_PASSES,
  TASK_PASS_KINDS,
  type TaskPassKind,
} from '../../../domain/prepaid-task-passes.ts'
import {
  buyTaskPassCommand,
  type BoughtTaskPass,
} from '../../../payments/commands/task-pass-commands.ts'
import type { ToolCatalogue } from '../../../tools/tool-catalogue.ts'
import { toSpenderPreload } from '../../actions/spender-preload.ts'
import {
  toRequestSpendingLimits,
  withBackpackRefusalLogging,
} from '../../auth/request-api-key-and-backpack.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  errorResponses,
  DateTimeSchema,
  Nullable,
  StrictBody,
  toIsoTime,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'
import { TaskPassSchemaFields } from '../../schemas/task-pass-schema.ts'

/** Routes for task passes: calls bought in advance (docs/task-passes.md). */

const tags = ['tasks']
const Pass = Type.Enum([...TASK_PASS_KINDS])

const listPasses = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'listTaskPasses',
    summary: 'The task passes for sale, and the tools that each pays',
    tags,
    response: {
      200: Type.Object({
        passes: Type.Array(
          Type.Object({
            pass: Pass,
            name: Type.String(),
            price_usdc: ResponseUsdcAmountSchema,
            calls: Type.Integer({ description: 'Calls that it pays, in all tasks together.' }),
            price_per_call_usdc: ResponseUsdcAmountSchema,
            expires_after_seconds: Nullable(Type.Integer()),
            min_call_price_usdc: Type.Number({
              description: 'It pays no call with a lower list price.',
            }),
            max_call_price_usdc: Type.Number({
              description: 'It pays no call with a higher list price.',
            }),
            tools: Type.Array(Type.String(), { description: 'The tools that it pays.' }),
          }),
        ),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const buyPass = {
  config: { auth: 'key', scope: 'funds', bound: 'pays', capped: true } as const,
  schema: {
    operationId: 'buyTaskPass',
    summary: 'Buy a task pass with your credits',
    description: [
      'The pass pays the calls of the whole agent that it covers, before the credits do, in any number of tasks at once.',
      'The task of `X-Task-ID`, the Backpack and the caps of the key count the price of the pass when it is bought, and the list price of each call.',
      'What is left when a pass expires is not refunded.',
    ].join(' '),
    tags,
    body: StrictBody({ pass: Pass }),
    response: {
      201: Type.Object({
        ...TaskPassSchemaFields,
        price_usdc: ResponseUsdcAmountSchema,
        promo_usdc: Type.Number({ description: 'The part that promotional credits have paid.' }),
        cash_usdc: ResponseUsdcAmountSchema,
        bought_at: DateTimeSchema,
        balance_usdc: Type.Number({ description: 'Your credits afterwards.' }),
      }),
      ...errorResponses,
    },
  },
}

/** The catalogue of passes, and their sale. */
export const taskPassRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, catalogue, once } = app.services

  app.get('/api/task/passes/catalog', listPasses, async () => {
    const passes = TASK_PASS_KINDS.map((pass) => presentForSale(pass, catalogue))
    return { passes, count: passes.length, next_cursor: null }
  })

  app.post('/api/task/passes/buy', buyPass, async (request, reply) => {
    const spender = toRequestSpendingLimits(request)
    const order = { pass: request.body.pass as TaskPassKind, spender }
    const touch = toSpenderPreload(spender)
    return sendIdempotentReply(
      reply,
      once.runCommand(toIdempotentRequest(request), toBoughtReply, (options) =>
        withBackpackRefusalLogging(request, 'purchase', () =>
          actors.ask(request.agentId, buyTaskPassCommand, order, { ...touch, ...options }),
        ),
      ),
    )
  })
}

function presentForSale(pass: TaskPassKind, catalogue: Pick<ToolCatalogue, 'tools' | 'priceOf'>) {
  const { name, price, calls, pricePerCall, lifetimeMs } = TASK_PASSES[pass]
  return {
    pass,
    name,
    price_usdc: toUsdc(price),
    calls,
    price_per_call_usdc: toUsdc(pricePerCall),
    expires_after_seconds: lifetimeMs === null ? null : lifetimeMs / 1000,
    min_call_price_usdc: toUsdc(pricePerCall),
    max_call_price_usdc: toUsdc(MAX_PASS_CALL_PRICE),
    tools: catalogue.tools
      .filter((tool) => tool.unlisted !== true && hasFixedStationOnlyPrice(tool))
      .filter((tool) => taskPassCoversListPrice(pricePerCall, catalogue.priceOf(tool, {}, true)))
      .map(({ slug }) => slug),
  }
}

const toBoughtReply = ({ view, ...bought }: BoughtTaskPass) => ({
  status: 201,
  body: {
    ...toTaskPassJson(view),
    price_usdc: toUsdc(bought.price),
    promo_usdc: toUsdc(bought.promo),
    cash_usdc: toUsdc(bought.cash),
    bought_at: toIsoTime(bought.boughtAt),
    balance_usdc: toUsdc(bought.balance),
  },
})
