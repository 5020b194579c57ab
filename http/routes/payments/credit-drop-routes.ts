import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { toUsdc, type Micros } from '../../../core/money.ts'
import {
  getCreditDropCommand,
  redeemCreditDropCommand,
} from '../../../payments/commands/credit-drop-commands.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  StrictBody,
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  Nullable,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for radio drops: credits for the first agents that claim a code. */

const tags = ['radio']

const getLatestDrop = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getLatestDrop',
    summary: 'The code of the current radio drop, if there is one',
    tags,
    response: {
      200: Type.Object({
        active: Type.Boolean(),
        drop: Nullable(
          Type.Object({
            code: Type.String(),
            slots: Type.Integer(),
            slots_left: Type.Integer(),
            credits_usdc: ResponseUsdcAmountSchema,
            expires_at: DateTimeSchema,
          }),
        ),
      }),
      ...errorResponses,
    },
  },
}

const redeemDrop = {
  config: { auth: 'key', scope: 'funds', bound: 'acts', capped: true } as const,
  schema: {
    operationId: 'redeemDrop',
    summary: 'Claim a slot of a radio drop',
    tags,
    body: StrictBody({
      code: Type.String({ minLength: 1, maxLength: 64, description: 'RADIODROP-…' }),
    }),
    response: {
      200: Type.Object({ code: Type.String(), credited_usdc: ResponseUsdcAmountSchema }),
      ...errorResponses,
    },
  },
}

/** Read and claim radio drops. */
export const creditDropRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, drops, once } = app.services

  app.get('/api/radio-drop/latest', getLatestDrop, async (_request, reply) => {
    reply.header('cache-control', 'no-store')
    const [newest] = await drops.latest(1)
    const found =
      newest === undefined ? null : await actors.ask(newest.code, getCreditDropCommand, {})
    if (found === null || !found.open) return { active: false, drop: null }
    const drop = {
      code: found.code,
      slots: found.slots,
      slots_left: found.left,
      credits_usdc: toUsdc(found.credit),
      expires_at: toIsoTime(found.expiresAt),
    }
    return { active: true, drop }
  })

  app.post('/api/radio-drop/redeem', redeemDrop, async (request, reply) => {
    const code = request.body.code.trim().toUpperCase()
    if (!(await drops.has(code))) throw new ServiceError('drop_not_found')
    const { agentId } = request
    const one = toIdempotentRequest(request)
    // The reply is stored in the commit of the drop, which agents share, so it is scoped to the agent.
    const own = { ...one, owner: code, key: one.key === null ? null : `${agentId} ${one.key}` }
    const present = ({ credit }: { credit: Micros }) => ({
      status: 200,
      body: { code, credited_usdc: toUsdc(credit) },
    })
    return sendIdempotentReply(
      reply,
      once.runCommand(own, present, (options) =>
        actors.ask(code, redeemCreditDropCommand, { agentId }, options),
      ),
    )
  })
}
