import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'

/** Answers with an SVG image that any page may embed. */

export const svgOpenApiResponse = {
  description: 'An SVG image.',
  content: { 'image/svg+xml': { schema: Type.String() } },
}

/** Sends the image; it may load nothing. */
export const sendSvg = (reply: FastifyReply, svg: string): never =>
  reply
    .type('image/svg+xml; charset=utf-8')
    .header('cache-control', 'public, max-age=60')
    .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
    .header('x-content-type-options', 'nosniff')
    .serializer(String)
    .send(svg) as never
