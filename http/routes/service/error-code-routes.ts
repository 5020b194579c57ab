import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ERROR_DEFINITIONS, ServiceError, type ErrorCode } from '../../../core/errors.ts'
import { acceptsHtml } from '../../accepts-html.ts'
import { createCachedDocumentHandler } from '../../cached-http-document.ts'
import { HTML_PAGE_CONTENT_TYPE, sendHtmlPage, setHtmlPageHeaders } from '../../html-page-reply.ts'
import { errorResponses, Nullable } from '../../schemas/shared-schemas.ts'

/** Routes for the documentation of error codes. */

const ErrorCodeSchema = Type.Object({
  code: Type.String(),
  status: Type.Integer(),
  title: Type.String(),
  remedy: Nullable(
    Type.Object({
      action: Type.String(),
      method: Type.Optional(Type.String()),
      url: Type.Optional(Type.String()),
    }),
  ),
})

const listProblems = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'listProblems',
    summary: 'Every error code',
    description: 'A page for browsers, JSON for everything else.',
    tags: ['service'],
    response: { 200: Type.Object({ problems: Type.Array(ErrorCodeSchema) }), ...errorResponses },
  },
}

const explainProblem = {
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: {
    operationId: 'explainProblem',
    summary: 'What an error code means',
    description: 'A page for browsers, JSON for everything else.',
    tags: ['service'],
    params: Type.Object({ code: Type.String({ maxLength: 64 }) }),
    response: { 200: ErrorCodeSchema, ...errorResponses },
  },
}

/** Documents every error code at the URL of its problem `type`, as JSON and HTML. */
export const errorCodeRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, config, pages } = app.services
  const problems = Object.keys(ERROR_DEFINITIONS).map((code) =>
    describeErrorCode(code as ErrorCode),
  )
  const document = createCachedDocumentHandler({
    clock,
    read: () => ({ problems }),
    maxAgeMs: Infinity,
  })
  const page = createCachedDocumentHandler({
    clock,
    read: () => pages.problemList(problems),
    maxAgeMs: Infinity,
    type: HTML_PAGE_CONTENT_TYPE,
  })
  app.get('/problems', listProblems, (request, reply) => {
    if (acceptsHtml(request)) page(request, setHtmlPageHeaders(reply))
    else document(request, reply.header('vary', 'Accept'))
  })

  app.get('/problems/:code', explainProblem, async (request, reply) => {
    const { code } = request.params
    if (!Object.hasOwn(ERROR_DEFINITIONS, code)) throw new ServiceError('not_found')
    const explained = describeErrorCode(code as ErrorCode)
    reply.header('vary', 'Accept')
    if (!acceptsHtml(request)) return explained
    return sendHtmlPage(reply, pages.problem(explained, config.publicUrl))
  })
}

function describeErrorCode(code: ErrorCode) {
  const { status, title, remedy }: { status: number; title: string; remedy?: object } =
    ERROR_DEFINITIONS[code]
  return { code, status, title, remedy: (remedy as { action: string } | undefined) ?? null }
}
