import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { sendHtmlPage } from '../../html-page-reply.ts'
import { errorResponses, toIsoTime } from '../../schemas/shared-schemas.ts'

/** The owner's page and its session. What the page does are operations of the API. */

const config = { auth: 'none' } as const
const Done = Type.Object({ signed_in: Type.Boolean() })

const getPage = {
  config: { ...config, ignoresUnknownQuery: true } as const,
  schema: {
    operationId: 'getOwnerPage',
    summary: 'The page of an owner: agents, spending, Backpacks, keys, alerts, freeze',
    description:
      'The page holds no data. It signs in with a key that manages keys or with a link by e-mail, and then uses the operations that list `OwnerSession`.',
    tags: ['agents'],
    response: {
      200: { description: 'The page.', content: { 'text/html': { schema: Type.String() } } },
      ...errorResponses,
    },
  },
}

/** The routes below are not part of the API: they are for the page. */
const readSession = {
  config,
  schema: {
    hide: true,
    response: {
      200: Type.Object({
        signed_in: Type.Boolean(),
        can_mail: Type.Boolean(),
        expires_at: Type.Union([Type.String(), Type.Null()]),
        csrf_token: Type.Union([Type.String(), Type.Null()]),
        agents: Type.Array(Type.Object({ agent_id: Type.String(), name: Type.String() })),
      }),
      ...errorResponses,
    },
  },
}

const signIn = {
  config,
  schema: {
    hide: true,
    body: Type.Object(
      {
        api_key: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
        link: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
      },
      { minProperties: 1, maxProperties: 1, additionalProperties: false },
    ),
    response: { 200: Done, ...errorResponses },
  },
}

const signOut = {
  config,
  schema: { hide: true, response: { 200: Done, ...errorResponses } },
}

const requestLink = {
  config,
  schema: {
    hide: true,
    body: Type.Object(
      { email: Type.String({ format: 'email', maxLength: 254 }) },
      { additionalProperties: false },
    ),
    response: { 200: Type.Object({ accepted: Type.Boolean() }), ...errorResponses },
  },
}

/** The page, signing in and out, and links by e-mail. */
export const ownerSessionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { ownerAccess, keyRing, services } = app
  const { pages } = services

  app.get('/owner', getPage, async (_request, reply) => {
    reply.header('cache-control', 'no-store').header('x-robots-tag', 'noindex')
    return sendHtmlPage(reply, pages.owner())
  })

  app.get('/owner/session', readSession, async (request, reply) => {
    noStore(reply)
    const session = await ownerAccess.read(request)
    return {
      signed_in: session !== null,
      can_mail: ownerAccess.canMail,
      expires_at: session === null ? null : toIsoTime(session.expiresAt),
      csrf_token: session?.csrfToken ?? null,
      agents: (session?.agents ?? []).map(({ agentId, name }) => ({ agent_id: agentId, name })),
    }
  })

  app.post('/owner/session', signIn, async (request, reply) => {
    const { api_key: secret, link } = request.body
    const cookie =
      secret === undefined
        ? await ownerAccess.signInWithLink(request, link ?? '')
        : await ownerAccess.signInWithKey(request, await keyRing.verify(secret.trim()))
    noStore(reply).header('set-cookie', cookie)
    return { signed_in: true }
  })

  app.delete('/owner/session', signOut, async (request, reply) => {
    noStore(reply).header('set-cookie', await ownerAccess.signOut(request))
    return { signed_in: false }
  })

  app.post('/owner/links', requestLink, async (request, reply) => {
    await ownerAccess.requestLink(request, request.body.email)
    noStore(reply)
    return { accepted: true }
  })
}

const noStore = (reply: FastifyReply): FastifyReply => reply.header('cache-control', 'no-store')
