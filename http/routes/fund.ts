import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { ServiceError, statusOf } from '../../core/errors.ts'
import type { Page } from '../../core/funding.ts'
import { isUuid } from '../../core/ids.ts'
import { failures, Instant, instant, Nullable } from '../schemas.ts'

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
      ...failures,
    },
  },
}

const getFundStatus = {
  config,
  schema: {
    operationId: 'getFundStatus',
    summary: 'Where an agent takes deposits, and whether it needs any',
    tags,
    params,
    response: {
      200: Type.Object({
        wallet_address: Nullable(Type.String()),
        deposits: Type.Enum(['on', 'off', 'paused']),
        tier: Type.String({ description: 'The alert level of the balance.' }),
        last_deposit: Nullable(Type.Object({ state: Type.String(), at: Instant })),
      }),
      ...failures,
    },
  },
}

/** The public face of an agent's wallet: spec 4.1. It tells no amounts. */
export const fundRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { funding, pages } = app.services

  app.get('/fund/:agent_id', getFundPage, async ({ params: { agent_id: id }, headers }, reply) => {
    const view = isUuid(id) ? await funding.view(id) : null
    if (view !== null) return sendPage(reply, await pages.fund(view), 200)
    const people = (headers.accept ?? '').includes('text/html')
    reply.header('vary', 'Accept')
    if (!people) throw new ServiceError('agent_not_found')
    return sendPage(reply, pages.noAgent(), statusOf('agent_not_found'))
  })

  app.get('/fund/:agent_id/status', getFundStatus, async ({ params: { agent_id: id } }, reply) => {
    const status = isUuid(id) ? await funding.status(id) : null
    if (status === null) throw new ServiceError('agent_not_found')
    const { address, deposits, tier, lastDeposit } = status
    reply.header('cache-control', 'no-store')
    return {
      wallet_address: address,
      deposits,
      tier,
      last_deposit:
        lastDeposit === null ? null : { state: lastDeposit.state, at: instant(lastDeposit.at) },
    }
  })
}

/** The address on it may change, so no copy of it is kept anywhere. */
function sendPage(reply: FastifyReply, { html, policy }: Page, status: number): never {
  return reply
    .code(status)
    .type('text/html; charset=utf-8')
    .header('cache-control', 'no-store')
    .header('content-security-policy', policy)
    .header('referrer-policy', 'no-referrer')
    .header('x-content-type-options', 'nosniff')
    .serializer(String)
    .send(html) as never
}
