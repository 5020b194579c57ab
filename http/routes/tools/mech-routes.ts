import { createHash, randomUUID } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { NOT_BLANK_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import { selectToolsForModels } from '../../../tools/tools-shown-to-models.ts'
import { createCachedDocumentHandler } from '../../cached-http-document.ts'
import { describeMechMarketplaceMetadata } from '../../documents/mech-metadata-document.ts'
import { parseToolCallRequest, sendCallReply } from '../../http-tool-call-request.ts'
import { parseMechPrompt } from '../../parse-mech-prompt.ts'
import {
  errorResponses,
  StrictBody,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes that speak the request format of a mech marketplace (decision 234). */

const tags = ['tools']
const AnyObject = Type.Object({}, { additionalProperties: true })

const mechRequest = {
  config: { auth: 'optional', scope: 'tools', rate: 'refuel', bound: 'pays', passBadKey: true },
  schema: {
    operationId: 'requestMech',
    summary: 'Call a tool in the request format of a mech marketplace',
    description:
      'The same call as `/api/refuel`. Free tools answer anybody; others take an API key or a payment, else 402. The fee of a mech marketplace does not pay a call.',
    tags,
    body: StrictBody({
      prompt: Type.String({
        minLength: 1,
        maxLength: 100_000,
        pattern: NOT_BLANK_PATTERN,
        description: 'The text field of the tool, or a JSON object with its fields.',
      }),
      tool: Type.String({ minLength: 1, maxLength: 64, description: 'The slug of a tool.' }),
      nonce: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 128,
          description: 'Part of `requestId`; random where it is absent.',
        }),
      ),
    }),
    response: {
      200: Type.Object({
        requestId: Type.String({
          description: 'SHA-256 of the JSON array of tool, prompt and nonce, in hex.',
        }),
        result: Type.Object({}, { additionalProperties: true, description: "The tool's output." }),
        prompt: Type.String(),
        tool: Type.String(),
        nonce: Type.String(),
        cost: Type.Number({ description: 'The same as `cost_usdc`.' }),
        cost_usdc: ResponseUsdcAmountSchema,
        _meta: Type.Object(
          {},
          { additionalProperties: true, description: 'As in the answer of `/api/refuel`.' },
        ),
      }),
      ...errorResponses,
    },
  },
} as const

const mechMetadata = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getMechMetadata',
    summary: 'The tools that a mech marketplace can request',
    tags,
    response: { 200: AnyObject, ...errorResponses },
  },
}

/** The request adapter and its metadata. */
export const mechMarketplaceAdapterRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls, catalogue, clock, config } = app.services
  // Models read it: the words of builders are marked as theirs.
  const read = () =>
    describeMechMarketplaceMetadata(
      config.publicUrl,
      selectToolsForModels(catalogue.short(), { community: true }),
    )
  app.get('/mech/metadata', mechMetadata, createCachedDocumentHandler({ clock, read }))

  app.post('/mech/request', mechRequest, async (request, reply) => {
    const { prompt, tool: slug, nonce = randomUUID() } = request.body
    const tool = catalogue.get(slug)
    const fields = parseMechPrompt(prompt, tool.input)
    const answer = await calls.refuel(
      parseToolCallRequest(app, request, reply, { ...fields, tool: tool.slug }),
    )
    const body = sendCallReply(reply, answer)
    if (answer.status >= 400) return body as never
    const { _meta, ...result } = body as Record<string, unknown> & { _meta: { cost_usdc: number } }
    const cost = _meta.cost_usdc
    const named = { prompt, tool: tool.slug, nonce }
    return { requestId: mechRequestId(named), result, ...named, cost, cost_usdc: cost, _meta }
  })
}

interface NamedMechRequest {
  readonly prompt: string
  readonly tool: string
  readonly nonce: string
}

const mechRequestId = ({ tool, prompt, nonce }: NamedMechRequest): string =>
  createHash('sha256')
    .update(JSON.stringify([tool, prompt, nonce]))
    .digest('hex')
