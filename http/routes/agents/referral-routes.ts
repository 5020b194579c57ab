import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { newPrefixedId } from '../../../core/ids-and-api-keys.ts'
import { addMicros, toUsdc } from '../../../core/money.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { errorResponses, Nullable, ResponseUsdcAmountSchema } from '../../schemas/shared-schemas.ts'

/** Routes for referral codes and their rewards (decision 26). */

const tags = ['referrals']

const createReferral = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'createReferral',
    summary: 'Get your referral code',
    description: 'An agent has one code; repeated requests return the same.',
    tags,
    response: {
      201: Type.Object({ referral_code: Type.String(), onboard_url: Type.String() }),
      ...errorResponses,
    },
  },
}

const getReferrals = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'getReferrals',
    summary: 'Your referral code, its referrals and its earnings',
    description: 'Pays out accrued shares to your credits.',
    tags,
    response: {
      200: Type.Object({
        referral_code: Nullable(Type.String()),
        referred: Type.Integer(),
        activated: Type.Integer({
          description: 'Referred agents that have made their first deposit.',
        }),
        earnings_usdc: ResponseUsdcAmountSchema,
        rewards_usdc: Type.Number({ description: 'For activations, as promotional credits.' }),
        shares_usdc: Type.Number({
          description:
            'Paid out so far: one percent of the paid calls of activated referrals, and the genesis shares; in cash for what they paid in cash.',
        }),
        shares_promo_usdc: Type.Number({
          description: 'The part of the shares that is promotional credits.',
        }),
        paid_out_usdc: Type.Number({
          description: 'Total paid out to your credits: rewards and shares.',
        }),
        children: Type.Integer({
          description: 'Agents onboarded from bundles of genesis_forge that you bought.',
        }),
        genesis_shares_usdc: Type.Number({
          description: 'Half of the fee of their calls, earned so far; paid out with the shares.',
        }),
        paid_now_usdc: Type.Number({ description: 'The part paid out by this request.' }),
      }),
      ...errorResponses,
    },
  },
}

const describeOnboarding = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'describeOnboarding',
    summary: 'How to onboard, optionally with a referral code',
    tags: ['agents'],
    querystring: Type.Object({ referral_code: Type.Optional(Type.String({ maxLength: 64 })) }),
    response: {
      200: Type.Object({
        detail: Type.String(),
        method: Type.Literal('POST'),
        url: Type.String(),
        body: Type.Object({ name: Type.String(), referral_code: Type.Optional(Type.String()) }),
        curl: Type.String(),
        docs_url: Type.String(),
      }),
      ...errorResponses,
    },
  },
}

/** Referral codes, and what they earned. */
export const referralRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { accounts, clock, config, once, referrals } = app.services

  app.get('/api/onboard', describeOnboarding, async ({ query }) => {
    const { referral_code: code } = query
    if (code !== undefined) await accounts.referrerOf(code)
    return toOnboardInstructions(config.publicUrl, code)
  })

  app.post('/api/referrals/create', createReferral, async (request, reply) =>
    sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const at = new Date(clock.now())
        const code = await referrals.create(tx, request.agentId, newPrefixedId('ref'), at)
        const onboardUrl = `${config.publicUrl}/api/onboard?referral_code=${code}`
        const body = { referral_code: code, onboard_url: onboardUrl }
        return { status: 201, body }
      }),
    ),
  )

  app.get('/api/referrals/me', getReferrals, async ({ agentId }) => {
    const paid = await referrals.payOut(agentId, new Date(clock.now()))
    const [code, earned] = await Promise.all([
      referrals.codeOf(agentId),
      referrals.earningsOf(agentId),
    ])
    const { referred, activated, rewards, paidOut, paidOutPromo, children } = earned
    return {
      referral_code: code,
      referred,
      activated,
      earnings_usdc: toUsdc(addMicros(rewards, paidOut)),
      rewards_usdc: toUsdc(rewards),
      shares_usdc: toUsdc(paidOut),
      shares_promo_usdc: toUsdc(paidOutPromo),
      paid_out_usdc: toUsdc(addMicros(rewards, paidOut)),
      children,
      genesis_shares_usdc: toUsdc(earned.genesisShares),
      paid_now_usdc: toUsdc(paid),
    }
  })
}

/** Returns the invitation, as text and as a command to copy. */
function toOnboardInstructions(publicUrl: string, code: string | undefined) {
  const url = `${publicUrl}/api/onboard`
  const body = { name: 'my-agent', ...(code === undefined ? {} : { referral_code: code }) }
  return {
    detail: 'Send this body with POST: the answer has the agent and its API key, shown once.',
    method: 'POST' as const,
    url,
    body,
    curl: `curl -X POST '${url}' -H 'content-type: application/json' -d '${JSON.stringify(body)}'`,
    docs_url: `${publicUrl}/docs`,
  }
}
