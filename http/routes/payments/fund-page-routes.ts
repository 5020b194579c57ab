import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import type {
  PublicAgentFundingInfo,
  AgentLastConfirmedDeposit,
} from '../../../domain/agent-funding-info-and-instructions.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../../core/limits.ts'
import { toUsdc } from '../../../core/money.ts'
import { sendHtmlPage } from '../../html-page-reply.ts'
import {
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for the public funding page of an agent. */

const tags = ['funds']
const config = { auth: 'none' } as const
const params = Type.Object({ agent_id: Type.String({ maxLength: 64 }) })

const getFundPage = {
  config: { ...config, ignoresUnknownQuery: true } as const,
  schema: {
    operationId: 'getFundPage',
    summary: 'A page for people who want to fund an agent',
    tags,
    params,
    querystring: Type.Object({
      amount: Type.Optional(
        Type.String({
          maxLength: 20,
          description: 'An amount in USDC to show a code for, beside the suggested ones.',
        }),
      ),
    }),
    response: {
      200: {
        description: 'Address, QR codes and suggested amounts.',
        content: { 'text/html': { schema: Type.String() } },
      },
      ...errorResponses,
    },
  },
}

const getFundStatus = {
  config,
  schema: {
    operationId: 'getFundStatus',
    summary: 'Deposit address and funding status of an agent',
    tags,
    params,
    response: {
      200: Type.Object({
        wallet_address: Nullable(Type.String()),
        deposits: Type.Enum(['on', 'off', 'paused']),
        tier: Type.String({ description: 'The alert level of the balance.' }),
        pending_usdc: Type.Number({
          description: 'Received deposits whose sum is below the minimum.',
        }),
        incoming: Type.Array(
          Type.Object({
            amount_usdc: ResponseUsdcAmountSchema,
            tx_hash: Type.String(),
            confirmations: Type.Integer(),
            required_confirmations: Type.Integer(),
          }),
          { description: 'Seen on the chain but not credited yet.' },
        ),
        last_deposit: Nullable(
          Type.Object({
            state: Type.String(),
            amount_usdc: ResponseUsdcAmountSchema,
            tx_hash: Type.String(),
            at: DateTimeSchema,
            credited_at: Nullable(DateTimeSchema),
          }),
        ),
        display: Type.Object(
          { balance: Type.String(), deposits: Type.String() },
          { description: 'The same as text, as shown on the page.' },
        ),
      }),
      ...errorResponses,
    },
  },
}

/** The funding page and its status. Both show only what is public on the chain, and no balance. */
export const agentFundingPageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { funding, pages } = app.services

  app.get('/fund/:agent_id', getFundPage, async ({ params, query }, reply) => {
    const { agent_id: id } = params
    const view = isUuid(id) ? await funding.view(id) : null
    if (view === null) throw new ServiceError('agent_not_found')
    // Not cacheable, since the deposit address may change.
    reply.header('cache-control', 'no-store')
    return sendHtmlPage(reply, await pages.fund(view, query.amount ?? null))
  })

  app.get('/fund/:agent_id/status', getFundStatus, async ({ params: { agent_id: id } }, reply) => {
    const status = isUuid(id) ? await funding.status(id) : null
    if (status === null) throw new ServiceError('agent_not_found')
    reply.header('cache-control', 'no-store')
    return { ...presentFundStatus(status), display: pages.fundTexts(status) }
  })
}

const presentFundStatus = (status: PublicAgentFundingInfo) => ({
  wallet_address: status.address,
  deposits: status.deposits,
  tier: status.tier,
  pending_usdc: toUsdc(status.pending),
  incoming: status.incoming.map(({ amount, tx, confirmations }) => ({
    amount_usdc: toUsdc(amount),
    tx_hash: tx,
    confirmations,
    required_confirmations: LIMITS.depositConfirmations,
  })),
  last_deposit: status.lastDeposit === null ? null : presentLastDeposit(status.lastDeposit),
})

const presentLastDeposit = ({
  state,
  amount,
  tx,
  seenAt,
  creditedAt,
}: AgentLastConfirmedDeposit) => ({
  state,
  amount_usdc: toUsdc(amount),
  tx_hash: tx,
  at: toIsoTime(seenAt),
  credited_at: toIsoTimeOrNull(creditedAt),
})
