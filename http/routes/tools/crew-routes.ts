import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { LIMITS } from '../../../core/limits.ts'
import { toPortableSchema } from '../../../core/validation/portable-schema.ts'
import { toUsdc } from '../../../core/money.ts'
import {
  CREW_KINDS,
  CREW_DEFINITIONS,
  type CrewKind,
} from '../../../tools/intelligence/crew/crew-definitions.ts'
import { toBaseCallRequest, sendCallReply } from '../../http-tool-call-request.ts'
import { errorResponses, ResponseUsdcAmountSchema } from '../../schemas/shared-schemas.ts'
import { ToolFieldsWithDryRunBody } from './tool-call-routes.ts'

/** Route for crews: several tools that work on one goal. */

const tags = ['discovery']
const AnyObject = Type.Object({}, { additionalProperties: true })
const Text = Type.String()

const runCrew = {
  config: { auth: 'key', scope: 'tools', rate: 'refuel', bound: 'pays' } as const,
  schema: {
    operationId: 'runCrew',
    summary: 'Run several tools as one job, refunded in full when a stage fails',
    description:
      'Fields: type (competitor, newsletter, cold_email, custom; inferred when absent) and those of its type: domain; topic and targetAudience; icpDescription and offerDescription; goal. Responds when it is done, within 90 seconds. `POST /api/refuel/stream` with the tool `crew` streams the progress of its stages.',
    tags,
    body: ToolFieldsWithDryRunBody,
    response: { 200: AnyObject, ...errorResponses },
  },
}

const describeCrews = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'describeCrews',
    summary: 'The crews with their fields, prices and stage graphs',
    tags,
    response: {
      200: Type.Object({
        endpoint: Text,
        method: Text,
        auth: Text,
        deadline_seconds: Type.Integer(),
        type_inferred: Text,
        refund: Text,
        stream: Type.Object({ endpoint: Text, tool: Text, events: Type.Array(Text) }),
        crews: Type.Array(
          Type.Object({
            type: Text,
            description: Text,
            price_usdc: ResponseUsdcAmountSchema,
            input_schema: AnyObject,
            stages: Type.Array(Type.Object({ name: Text, after: Type.Array(Text), does: Text })),
            methods: Type.Object({ without_model: Text, with_model: Text }),
            example: AnyObject,
          }),
        ),
      }),
      ...errorResponses,
    },
  },
}

/** Runs a crew, as an ordinary call of the tool `crew`. */
export const crewRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls, config } = app.services

  app.post('/api/agent/crew', runCrew, async (request, reply) => {
    const { dry_run: dry, ...body } = request.body
    const callRequest = { ...toBaseCallRequest(request, reply), tool: 'crew', body }
    if (dry === true) return calls.quote(callRequest)
    return sendCallReply(reply, await calls.refuel(callRequest))
  })

  app.get('/api/agent/crew', describeCrews, async () => ({
    endpoint: `${config.publicUrl}/api/agent/crew`,
    method: 'POST',
    auth: 'X-API-Key',
    deadline_seconds: LIMITS.toolDeadlineMs / 1_000,
    type_inferred: 'From the fields, which belong to one type each.',
    refund: 'Whole, where a stage fails or the deadline passes; the error names the stage.',
    stream: {
      endpoint: `${config.publicUrl}/api/refuel/stream`,
      tool: 'crew',
      events: ['start', 'progress', 'result', 'error', 'done'],
    },
    crews: CREW_KINDS.map(describeCrew),
  }))
}

function describeCrew(type: CrewKind) {
  const { description, price, fields, stages, methods, example } = CREW_DEFINITIONS[type]
  const properties = fields.map(({ name, description: about, minLength, maxLength }) => [
    name,
    { type: 'string', description: about, minLength, maxLength },
  ])
  return {
    type,
    description,
    price_usdc: toUsdc(price),
    input_schema: toPortableSchema({
      type: 'object',
      properties: { type: { const: type }, ...Object.fromEntries(properties) },
      required: fields.map(({ name }) => name),
      additionalProperties: false,
    }),
    stages: stages.map(({ name, after, does }) => ({ name, after: [...after], does })),
    methods: { without_model: methods[0], with_model: methods[1] },
    example: { ...example },
  }
}
