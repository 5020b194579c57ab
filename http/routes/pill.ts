import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { frame, send } from '../call-request.ts'
import { failures } from '../schemas.ts'

const Open = Type.Object({}, { additionalProperties: true })

const checkClaims = {
  config: { auth: 'none', rate: 'refuel' } as const,
  schema: {
    operationId: 'checkClaims',
    summary: 'Check up to ten claims, five times a day and address: the tool hallucination_pill',
    description:
      'Its fields are those of the tool: claim or claims, and chain. The worst verdict stands for all; `confidence` is the least of the claims that could be judged, null where none could, and `results` has that of each.',
    tags: ['tools'],
    body: Open,
    response: { 200: Open, ...failures },
  },
}

/** The hallucination checker at an address of its own. Both share one counter. */
export const pillRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls } = app.services
  app.post('/api/pill', checkClaims, async (request, reply) => {
    const asked = {
      ...frame(request, reply),
      tool: 'hallucination_pill',
      body: { ...request.body },
    }
    return send(reply, await calls.refuel(asked))
  })
}
