import type { FastifyReply } from 'fastify'

/** How pages are sent: as HTML that loads its own scripts and styles and nothing else. */

export const HTML_PAGE_CONTENT_TYPE = 'text/html; charset=utf-8'

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** The library of the API reference styles its elements by attributes. */
export const API_REFERENCE_CONTENT_SECURITY_POLICY = CONTENT_SECURITY_POLICY.replace(
  "style-src 'self'",
  "style-src 'self' 'unsafe-inline'",
)

/** Sets the headers of a page at an address that answers programs with something else. */
export const setHtmlPageHeaders = (reply: FastifyReply): FastifyReply =>
  reply
    .header('vary', 'Accept')
    .header('content-security-policy', CONTENT_SECURITY_POLICY)
    .header('referrer-policy', 'no-referrer')
    .header('x-content-type-options', 'nosniff')

/** Sends a page that is made for this request. */
export const sendHtmlPage = (reply: FastifyReply, html: string): never =>
  setHtmlPageHeaders(reply).type(HTML_PAGE_CONTENT_TYPE).serializer(String).send(html) as never
