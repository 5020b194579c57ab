import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { STATION_PROMISES } from '../../../domain/manifesto-promises.ts'
import type { ManifestoSigner } from '../../../persistence/agents/manifesto-signature-store.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  DateTimeSchema,
  errorResponses,
  Nullable,
  toIsoTime,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for the manifesto: the promises of the station, and who signed them. */

const tags = ['service']

const getManifesto = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getManifesto',
    summary: 'The promises of this station, with their proofs and signers',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        title: Type.String(),
        promises: Type.Array(
          Type.Object({
            name: Type.String(),
            promise: Type.String(),
            proof: Type.Object({ about: Type.String(), url: Type.String() }),
          }),
        ),
        signatures: Type.Integer({
          description: 'All of them, also of agents that are not named.',
        }),
        signers: Type.Array(
          Type.Object({ agent_id: UuidSchema, name: Type.String(), signed_at: DateTimeSchema }),
          { description: 'Agents that may be named, latest first.' },
        ),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const SignatureSchema = Type.Object({ signed: Type.Boolean(), signed_at: Nullable(DateTimeSchema) })
const keyed = { auth: 'key', scope: 'funds' } as const

const signManifesto = {
  config: keyed,
  schema: {
    operationId: 'signManifesto',
    summary: 'Sign the manifesto',
    description: 'One signature an agent: signing again answers 200 with the first one.',
    tags,
    response: { 200: SignatureSchema, 201: SignatureSchema, ...errorResponses },
  },
}

const withdrawSignature = {
  config: keyed,
  schema: {
    operationId: 'withdrawSignature',
    summary: 'Withdraw your signature',
    tags,
    response: { 200: SignatureSchema, ...errorResponses },
  },
}

/** The manifesto. */
export const manifestoRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, config, manifesto, once } = app.services

  app.get('/api/manifesto', getManifesto, async ({ query }) => {
    const [signatures, { rows, next_cursor }] = await Promise.all([
      manifesto.count(),
      paginate(
        query,
        CURSOR_PATTERNS.instantAndUuid,
        (limit, before) => manifesto.list(limit, parsePosition(before)),
        ({ signedAt, agentId }) => `${signedAt.getTime()} ${agentId}`,
      ),
    ])
    return {
      title: 'What this station promises',
      promises: STATION_PROMISES.map(({ name, promise, proof }) => ({
        name,
        promise,
        proof: { about: proof.about, url: `${config.publicUrl}${proof.path}` },
      })),
      signatures,
      signers: rows.map(presentSigner),
      count: rows.length,
      next_cursor,
    }
  })

  app.post('/api/manifesto/sign', signManifesto, async (request, reply) =>
    sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const { signedAt, isNew } = await manifesto.sign(tx, request.agentId, new Date(clock.now()))
        return { status: isNew ? 201 : 200, body: { signed: true, signed_at: toIsoTime(signedAt) } }
      }),
    ),
  )

  app.delete('/api/manifesto/sign', withdrawSignature, async (request, reply) =>
    sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        await manifesto.withdraw(tx, request.agentId)
        return { status: 200, body: { signed: false, signed_at: null } }
      }),
    ),
  )
}

const presentSigner = ({ agentId, name, signedAt }: ManifestoSigner) => ({
  agent_id: agentId,
  name,
  signed_at: toIsoTime(signedAt),
})

function parsePosition(position: string | null) {
  if (position === null) return null
  const [at = '', agentId = ''] = position.split(' ')
  return { at: new Date(Number(at)), agentId }
}
