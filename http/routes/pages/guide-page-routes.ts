import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { acceptsHtml } from '../../accepts-html.ts'
import {
  createCachedDocumentHandler,
  type CachedDocumentHandler,
} from '../../cached-http-document.ts'
import {
  sendPrecompressedContent,
  toPrecompressedContent,
  type PrecompressedContent,
} from '../../precompressed-content.ts'
import {
  HTML_PAGE_CONTENT_TYPE,
  API_REFERENCE_CONTENT_SECURITY_POLICY,
  setHtmlPageHeaders,
} from '../../html-page-reply.ts'

/** Routes for the guides: pages for browsers, Markdown for programs and at the address with `.md`. */

const config = { auth: 'none', ignoresUnknownQuery: true } as const
const MARKDOWN_TYPE = 'text/markdown; charset=utf-8'
const MARKDOWN = /^([\w-]{1,64})\.md$/

const getGuide = {
  config,
  schema: { hide: true, params: Type.Object({ '*': Type.String({ maxLength: 128 }) }) },
} as const

/** Guides are read, rendered and compressed with their first request. */
export const guidePageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, config: settings, pages } = app.services
  const { publicUrl } = settings
  const guides = new Map<string, CachedDocumentHandler>()
  const files = new Map<string, PrecompressedContent>()

  const list = createCachedDocumentHandler({
    clock,
    read: () => pages.guideList(),
    maxAgeMs: Infinity,
    type: HTML_PAGE_CONTENT_TYPE,
  })
  const reference = createCachedDocumentHandler({
    clock,
    read: () => pages.reference(),
    maxAgeMs: Infinity,
    type: HTML_PAGE_CONTENT_TYPE,
  })
  const listed = createCachedDocumentHandler({
    clock,
    maxAgeMs: Infinity,
    read: () => ({
      guides: pages.guides().map(({ slug, ...guide }) => ({
        ...guide,
        url: `${publicUrl}/docs/${slug}`,
        markdown_url: `${publicUrl}/docs/${slug}.md`,
      })),
      reference_url: `${publicUrl}/docs/reference`,
      openapi_url: `${publicUrl}/api/openapi.json`,
    }),
  })

  function pageOf(slug: string): CachedDocumentHandler {
    const known = guides.get(slug)
    if (known !== undefined) return known
    if (!pages.guides().some((guide) => guide.slug === slug)) throw new ServiceError('not_found')
    const read = () => pages.guide(slug, publicUrl)
    const page = createCachedDocumentHandler({
      clock,
      read,
      maxAgeMs: Infinity,
      type: HTML_PAGE_CONTENT_TYPE,
    })
    guides.set(slug, page)
    return page
  }

  /** The Markdown twin of a guide, or an image. */
  function fileOf(path: string): PrecompressedContent {
    const known = files.get(path)
    if (known !== undefined) return known
    const content = readFile(path)
    if (content === null) throw new ServiceError('not_found')
    files.set(path, content)
    return content
  }

  function readFile(path: string): PrecompressedContent | null {
    const slug = MARKDOWN.exec(path)?.[1]
    if (slug === undefined) {
      const image = pages.guideImage(path)
      return image === null ? null : toPrecompressedContent(image.type, image.body)
    }
    const text = pages.guideMarkdown(slug, publicUrl)
    return text === null ? null : toPrecompressedContent(MARKDOWN_TYPE, text)
  }

  app.get('/docs', { config, schema: { hide: true } }, async (request, reply) => {
    if (acceptsHtml(request)) list(request, setHtmlPageHeaders(reply))
    else listed(request, reply.header('vary', 'Accept'))
    return reply
  })

  app.get('/docs/reference', { config, schema: { hide: true } }, async (request, reply) => {
    reply.header('vary', 'Accept')
    if (!acceptsHtml(request)) return reply.redirect('/api/openapi.json', 302)
    reference(
      request,
      setHtmlPageHeaders(reply).header(
        'content-security-policy',
        API_REFERENCE_CONTENT_SECURITY_POLICY,
      ),
    )
    return reply
  })

  app.get('/docs/*', getGuide, async (request, reply) => {
    const path = request.params['*'].replace(/^reference\.md$/, 'tables.md')
    if (path.includes('.')) {
      sendPrecompressedContent(
        request,
        reply.header('x-content-type-options', 'nosniff'),
        fileOf(path),
      )
      return reply
    }
    const page = pageOf(path)
    if (acceptsHtml(request)) page(request, setHtmlPageHeaders(reply))
    else sendPrecompressedContent(request, reply.header('vary', 'Accept'), fileOf(`${path}.md`))
    return reply
  })
}
