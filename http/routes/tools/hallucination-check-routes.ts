import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { toBaseCallRequest, sendCallReply } from '../../http-tool-call-request.ts'
import { errorResponses } from '../../schemas/shared-schemas.ts'

/** Routes for the hallucination checker. */

const AnyObject = Type.Object({}, { additionalProperties: true })

const checkClaims = {
  config: { auth: 'none', rate: 'refuel' } as const,
  schema: {
    operationId: 'checkClaims',
    summary:
      'Check up to ten claims, five times per day and address, with the tool hallucination_pill',
    description:
      'Its fields are those of the tool: claim or claims, and chain. Returns the worst verdict; `confidence` is the lowest among the verifiable claims, null without one, and `results` has each claim.',
    tags: ['tools'],
    body: AnyObject,
    response: { 200: AnyObject, ...errorResponses },
  },
}

/** The hallucination checker at its own address. It shares its free quota with the tool. */
export const hallucinationPillRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls } = app.services
  app.post('/api/pill', checkClaims, async (request, reply) => {
    const callRequest = {
      ...toBaseCallRequest(request, reply),
      tool: 'hallucination_pill',
      body: { ...request.body },
    }
    return sendCallReply(reply, await calls.refuel(callRequest))
  })
}
