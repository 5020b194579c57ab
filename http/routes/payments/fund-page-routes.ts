import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { ServiceError, httpStatusOf } from '../../../core/errors.ts'
import type {
  FundingStatus,
  LastConfirmedDeposit,
  HtmlPage,
} from '../../../domain/funding-status.ts'
import { isUuid } from '../../../core/ids.ts'
import { LIMITS } from '../../../core/limits.ts'
import { toUsdc } from '../../../core/money.ts'
import {
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  UsdcSchema,
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
        first_deposit_bonus: Type.Boolean({
          description: 'The next credited deposit brings 25 %.',
        }),
        incoming: Type.Array(
          Type.Object({
            amount_usdc: UsdcSchema,
            tx_hash: Type.String(),
            confirmations: Type.Integer(),
            required_confirmations: Type.Integer(),
          }),
          { description: 'Seen on the chain but not credited yet.' },
        ),
        last_deposit: Nullable(
          Type.Object({
            state: Type.String(),
            amount_usdc: UsdcSchema,
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
export const fundPageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { funding, pages } = app.services

  app.get('/fund/:agent_id', getFundPage, async ({ params: { agent_id: id }, headers }, reply) => {
    const view = isUuid(id) ? await funding.view(id) : null
    if (view !== null) return sendPage(reply, await pages.fund(view), 200)
    const people = (headers.accept ?? '').includes('text/html')
    reply.header('vary', 'Accept')
    if (!people) throw new ServiceError('agent_not_found')
    return sendPage(reply, pages.noAgent(), httpStatusOf('agent_not_found'))
  })

  app.get('/fund/:agent_id/status', getFundStatus, async ({ params: { agent_id: id } }, reply) => {
    const status = isUuid(id) ? await funding.status(id) : null
    if (status === null) throw new ServiceError('agent_not_found')
    reply.header('cache-control', 'no-store')
    return { ...presentFundStatus(status), display: pages.fundTexts(status) }
  })
}

const presentFundStatus = (status: FundingStatus) => ({
  wallet_address: status.address,
  deposits: status.deposits,
  tier: status.tier,
  pending_usdc: toUsdc(status.pending),
  first_deposit_bonus: status.bonusAhead,
  incoming: status.incoming.map(({ amount, tx, confirmations }) => ({
    amount_usdc: toUsdc(amount),
    tx_hash: tx,
    confirmations,
    required_confirmations: LIMITS.depositConfirmations,
  })),
  last_deposit: status.lastDeposit === null ? null : presentLastDeposit(status.lastDeposit),
})

const presentLastDeposit = ({ state, amount, tx, seenAt, creditedAt }: LastConfirmedDeposit) => ({
  state,
  amount_usdc: toUsdc(amount),
  tx_hash: tx,
  at: toIsoTime(seenAt),
  credited_at: toIsoTimeOrNull(creditedAt),
})

/** Not cacheable, since the deposit address may change. */
function sendPage(
  reply: FastifyReply,
  { html, contentSecurityPolicy }: HtmlPage,
  status: number,
): never {
  return reply
    .code(status)
    .type('text/html; charset=utf-8')
    .header('cache-control', 'no-store')
    .header('content-security-policy', contentSecurityPolicy)
    .header('referrer-policy', 'no-referrer')
    .header('x-content-type-options', 'nosniff')
    .serializer(String)
    .send(html) as never
}
