import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { catalogue, ServiceError, type ErrorCode } from '../../core/errors.ts'
import { failures, Nullable } from '../schemas.ts'

const Explained = Type.Object({
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

const style =
  'body{font:16px/1.5 system-ui;max-width:40rem;margin:3rem auto;padding:0 1rem;color:#1d2329}code{font-family:ui-monospace,monospace}'

const listProblems = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'listProblems',
    summary: 'Every error code',
    tags: ['service'],
    response: { 200: Type.Object({ problems: Type.Array(Explained) }), ...failures },
  },
}

const explainProblem = {
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: {
    operationId: 'explainProblem',
    summary: 'What an error code means',
    tags: ['service'],
    params: Type.Object({ code: Type.String({ maxLength: 64 }) }),
    response: { 200: Explained, ...failures },
  },
}

/** Where the `type` of a problem leads: every error of the service, for people and machines. */
export const problemRoutes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/problems', listProblems, async () => ({
    problems: Object.keys(catalogue).map((code) => explain(code as ErrorCode)),
  }))

  app.get(
    '/problems/:code',
    explainProblem,
    async ({ params: { code }, headers: { accept = '' } }, reply) => {
      if (!Object.hasOwn(catalogue, code)) throw new ServiceError('not_found')
      const explained = explain(code as ErrorCode)
      reply.header('vary', 'Accept')
      if (!accept.includes('text/html')) return explained
      return reply
        .type('text/html; charset=utf-8')
        .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
        .serializer(String)
        .send(pageOf(explained) as never)
    },
  )
}

function explain(code: ErrorCode) {
  const { status, title, remedy }: { status: number; title: string; remedy?: object } =
    catalogue[code]
  return { code, status, title, remedy: (remedy as { action: string } | undefined) ?? null }
}

/** Only our own words are shown: nothing a caller sent. */
function pageOf({ code, status, title, remedy }: ReturnType<typeof explain>): string {
  const { action, method = '', url = '' } = (remedy ?? {}) as Record<string, string>
  const advice =
    action === undefined
      ? ''
      : `<p>What to do: <b>${action.replaceAll('_', ' ')}</b> <code>${method} ${url}</code></p>`
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${code}</title><style>${style}</style><h1><code>${code}</code></h1><p>HTTP ${status}. ${title}</p>${advice}<p><a href="/problems">All codes</a></p></html>`
}
