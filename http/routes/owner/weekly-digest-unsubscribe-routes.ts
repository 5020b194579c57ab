import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { sendHtmlPage } from '../../html-page-reply.ts'
import { errorResponses } from '../../schemas/shared-schemas.ts'

/**
 * Where the link of a weekly digest leads (RFC 8058). GET shows a page and changes nothing, since scanners of
 * mail open every link; POST unsubscribes, from the page or from the button of a mail program.
 */

const MAX_FORM_BYTES = 4096
const FORM_TYPES = ['application/x-www-form-urlencoded', 'multipart/form-data']
const ONE_CLICK = /List-Unsubscribe(=|"\s+)One-Click/i
const AGAIN = /(^|&)subscribe=again(&|$)/

const schema = {
  hide: true,
  params: Type.Object({ token: Type.String({ pattern: '^[A-Za-z0-9_-]{32}$' }) }),
  response: errorResponses,
} as const
const config = { auth: 'none', ignoresUnknownQuery: true } as const

/** The page of the link, and its change. */
export const digestSubscriptionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { owners, pages } = app.services
  // These routes alone: nothing else of the station takes forms.
  app.addContentTypeParser(
    FORM_TYPES,
    { parseAs: 'string', bodyLimit: MAX_FORM_BYTES },
    (_request, body, done) => done(null, body),
  )

  app.get('/digest/:token', { config, schema }, async ({ params }, reply) => {
    const found = await owners.digests.find(params.token)
    if (found === null) throw unknownLink()
    return sendHtmlPage(withoutTraces(reply), pages.digest({ ...found, isChanged: false }))
  })

  app.post('/digest/:token', { config, schema }, async ({ params, body }, reply) => {
    const form = typeof body === 'string' ? body : ''
    const isSubscribed = AGAIN.test(form)
    if (!isSubscribed && !ONE_CLICK.test(form))
      throw invalidInputError('', 'must be the form `List-Unsubscribe=One-Click`')
    const changed = await owners.digests.change(params.token, isSubscribed)
    if (changed === null) throw unknownLink()
    return sendHtmlPage(withoutTraces(reply), pages.digest({ ...changed, isChanged: true }))
  })
}

const unknownLink = () =>
  new ServiceError('not_found', { detail: 'This is no link of a weekly digest of this station.' })

const withoutTraces = (reply: FastifyReply): FastifyReply =>
  reply.header('cache-control', 'no-store').header('x-robots-tag', 'noindex')
