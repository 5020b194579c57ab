import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { requireInspectorFeed } from '../../inspector/require-inspector-feed.ts'
import { errorResponses } from '../../schemas/shared-schemas.ts'

/** Routes for the page of the inspector and its files. They are public: they hold no data. */

const tags = ['inspector']
const config = { auth: 'none' } as const
const PAGE_FILE = 'inspector.html'

const getPage = {
  config: { ...config, ignoresUnknownQuery: true } as const,
  schema: {
    operationId: 'getInspectorPage',
    summary: 'The inspector: machines, live and back in time',
    tags,
    response: {
      200: {
        description: 'The page. It asks for the operator token or a one-time code.',
        content: { 'text/html': { schema: Type.String() } },
      },
      ...errorResponses,
    },
  },
}

const getAsset = {
  config,
  schema: { hide: true, params: Type.Object({ '*': Type.String({ maxLength: 100 }) }) },
} as const

/** The page of the inspector, its scripts and its charts. They ask the server for all data. */
export const inspectorPageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { pages, config: settings } = app.services

  const send = (request: FastifyRequest, reply: FastifyReply, path: string) => {
    requireInspectorFeed(app.services)
    const file = pages.inspectorFile(path)
    if (file === null) throw new ServiceError('not_found')
    reply
      .header('etag', file.etag)
      .header('cache-control', 'no-cache')
      .header('content-security-policy', contentSecurityPolicy(settings.publicUrl))
      .header('referrer-policy', 'no-referrer')
      .header('x-content-type-options', 'nosniff')
      .header('x-robots-tag', 'noindex')
    if (request.headers['if-none-match'] === file.etag) return reply.code(304).send() as never
    return reply.type(file.type).send(file.body) as never
  }

  app.get('/inspector', getPage, async (request, reply) => send(request, reply, PAGE_FILE))
  app.get('/inspector/assets/*', getAsset, async (request, reply) =>
    send(request, reply, request.params['*']),
  )
}

/** No inline script or style, and no request to another host. */
function contentSecurityPolicy(publicUrl: string): string {
  // Some browsers do not count the WebSockets of this host as 'self'.
  const socket = new URL(publicUrl).origin.replace(/^http/, 'ws')
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    `connect-src 'self' ${socket}`,
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}
