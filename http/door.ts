import type { FastifyRequest } from 'fastify'
import type { Door } from '../payments/paying.ts'
import { fingerprint, idempotencyKey } from './idempotency.ts'

const NO_BODY = Buffer.alloc(0)
const FREE_OF_PAYMENT = ''

/** The request as a payment sees it. Links are made from `PUBLIC_URL`, so only its path counts. */
export function doorOf(request: FastifyRequest): Door {
  const { headers, url } = request
  const [path = ''] = url.split('?', 1)
  const body = (request.rawBody as Buffer | undefined) ?? NO_BODY
  const brings = request.server.services.paying.brings({ headers })
  if (!brings) return { path, body, headers, fingerprint: FREE_OF_PAYMENT }
  const [address, key] = [request.caller.visitorId, idempotencyKey(request)]
  return { path, body, headers, fingerprint: fingerprint(request), address, key }
}
