import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ERROR_DEFINITIONS, ServiceError, type ErrorCode } from '../../../core/errors.ts'
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

const PAGE_CSS =
  'body{font:16px/1.5 system-ui;max-width:40rem;margin:3rem auto;padding:0 1rem;color:#1d2329}code{font-family:ui-monospace,monospace}'

const listProblems = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'listProblems',
    summary: 'Every error code',
    tags: ['service'],
    response: { 200: Type.Object({ problems: Type.Array(ErrorCodeSchema) }), ...errorResponses },
  },
}

const explainProblem = {
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: {
    operationId: 'explainProblem',
    summary: 'What an error code means',
    tags: ['service'],
    params: Type.Object({ code: Type.String({ maxLength: 64 }) }),
    response: { 200: ErrorCodeSchema, ...errorResponses },
  },
}

/** Documents every error code at the URL of its problem `type`, as JSON and HTML. */
export const errorCodeRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/problems', listProblems, async () => ({
    problems: Object.keys(ERROR_DEFINITIONS).map((code) => describeErrorCode(code as ErrorCode)),
  }))

  app.get(
    '/problems/:code',
    explainProblem,
    async ({ params: { code }, headers: { accept = '' } }, reply) => {
      if (!Object.hasOwn(ERROR_DEFINITIONS, code)) throw new ServiceError('not_found')
      const explained = describeErrorCode(code as ErrorCode)
      reply.header('vary', 'Accept')
      if (!accept.includes('text/html')) return explained
      return reply
        .type('text/html; charset=utf-8')
        .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
        .serializer(String)
        .send(renderErrorCodePage(explained) as never)
    },
  )
}

function describeErrorCode(code: ErrorCode) {
  const { status, title, remedy }: { status: number; title: string; remedy?: object } =
    ERROR_DEFINITIONS[code]
  return { code, status, title, remedy: (remedy as { action: string } | undefined) ?? null }
}

/** Renders constants only, never caller input. */
function renderErrorCodePage({
  code,
  status,
  title,
  remedy,
}: ReturnType<typeof describeErrorCode>): string {
  const { action, method = '', url = '' } = (remedy ?? {}) as Record<string, string>
  const advice =
    action === undefined
      ? ''
      : `<p>What to do: <b>${action.replaceAll('_', ' ')}</b> <code>${method} ${url}</code></p>`
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${code}</title><style>${PAGE_CSS}</style><h1><code>${code}</code></h1><p>HTTP ${status}. ${title}</p>${advice}<p><a href="/problems">All codes</a></p></html>`
}
