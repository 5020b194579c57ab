import type { FastifyRequest } from 'fastify'

/** Content negotiation between people and programs. */

/** Returns whether the caller asks for HTML by name; `*\/*` gets JSON, so that agents always do. */
export const acceptsHtml = ({
  headers: { accept = '' },
}: Pick<FastifyRequest, 'headers'>): boolean => accept.includes('text/html')
