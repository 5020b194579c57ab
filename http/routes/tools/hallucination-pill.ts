import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { toBaseCallRequest, sendCallReply } from '../../call-request.ts'
import { errorResponses } from '../../schemas/shared-schemas.ts'

/** Routes for the hallucination checker. */

const AnyObject = Type.Object({}, { additionalProperties: true })

const checkClaims = {
  config: { auth: 'none', rate: 'refuel' } as const,
  schema: {
    operationId: 'checkClaims',
    summary: 'Check up to ten claims, five times a day and address: the tool hallucination_pill',
    description:
      'Its fields are those of the tool: claim or claims, and chain. The worst verdict stands for all; `confidence` is the least of the claims that could be judged, null where none could, and `results` has that of each.',
    tags: ['tools'],
    body: AnyObject,
    response: { 200: AnyObject, ...errorResponses },
  },
}

/** The hallucination checker at its own address. It shares its free quota with the tool. */
export const hallucinationPillRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls } = app.services
  app.post('/api/pill', checkClaims, async (request, reply) => {
    const asked = {
      ...toBaseCallRequest(request, reply),
      tool: 'hallucination_pill',
      body: { ...request.body },
    }
    return sendCallReply(reply, await calls.refuel(asked))
  })
}
