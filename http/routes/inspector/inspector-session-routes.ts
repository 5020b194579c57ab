import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { hasStatechart } from '../../../actors/inspection/machine-definitions-for-inspector.ts'
import { machineRegistry } from '../../../actors/machine-registry.ts'
import { assertSameOrigin } from '../../auth/same-origin-check.ts'
import { requireInspectorFeed } from '../../inspector/require-inspector-feed.ts'
import { DateTimeSchema, errorResponses, Nullable } from '../../schemas/shared-schemas.ts'

/** Signing in to the inspector. Browsers keep the session as a cookie that scripts cannot read. */

const tags = ['inspector']
const config = { auth: 'none' } as const

const getSession = {
  config,
  schema: {
    operationId: 'getInspectorSession',
    summary: 'Whether this browser is signed in to the inspector, and which machines there are',
    tags,
    response: {
      200: Type.Object({
        signed_in: Type.Boolean(),
        expires_at: Nullable(DateTimeSchema),
        production: Type.Boolean(),
        machines: Type.Array(
          Type.Object({
            kind: Type.String(),
            chart: Type.Boolean({ description: 'False for a plain reducer.' }),
            actors: Nullable(
              Type.Integer({ description: 'Stored actors; null without a session.' }),
            ),
          }),
        ),
      }),
      ...errorResponses,
    },
  },
}

/** Not part of the API: for the page of the inspector. */
const signIn = {
  config,
  schema: {
    hide: true,
    body: Type.Object(
      {
        code: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
        token: Type.Optional(Type.String({ minLength: 1, maxLength: 512 })),
      },
      { minProperties: 1, maxProperties: 1, additionalProperties: false },
    ),
    response: {
      200: Type.Object({ signed_in: Type.Boolean(), expires_at: DateTimeSchema }),
      ...errorResponses,
    },
  },
}

const signOut = {
  config,
  schema: {
    hide: true,
    response: { 200: Type.Object({ signed_in: Type.Boolean() }), ...errorResponses },
  },
}

/** The session of the inspector. */
export const inspectorSessionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { config, actorDirectory, inspectorAccess: access } = services
  const origin = config.publicUrl

  app.get('/inspector/session', getSession, async (request, reply) => {
    requireInspectorFeed(services)
    noStore(reply)
    const end = access.sessionEnd(request)
    const isOperator = end !== null || access.isOperator(request)
    const counts = isOperator ? await actorDirectory.countByKind() : null
    return {
      signed_in: isOperator,
      expires_at: end === null ? null : new Date(end).toISOString(),
      production: config.production,
      machines: Object.keys(machineRegistry).map((kind) => ({
        kind,
        chart: hasStatechart(kind),
        actors: counts === null ? null : (counts[kind] ?? 0),
      })),
    }
  })

  app.post('/inspector/session', signIn, async (request, reply) => {
    requireInspectorFeed(services)
    assertSameOrigin(request, origin)
    const { expiresAt, cookie } = await access.signIn(request.caller, request.body)
    noStore(reply).header('set-cookie', cookie)
    return { signed_in: true, expires_at: new Date(expiresAt).toISOString() }
  })

  app.delete('/inspector/session', signOut, async (request, reply) => {
    requireInspectorFeed(services)
    assertSameOrigin(request, origin)
    noStore(reply).header('set-cookie', access.noCookie())
    return { signed_in: false }
  })
}

const noStore = (reply: FastifyReply): FastifyReply => reply.header('cache-control', 'no-store')
