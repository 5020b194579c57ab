import type { FastifyRequest } from 'fastify'
import type { PaymentRequestContext } from '../payments/payment-service-types.ts'
import { fingerprintRequest, parseIdempotencyKey } from './idempotency.ts'

/** Adapts Fastify requests to the payment layer. */

const NO_BODY = Buffer.alloc(0)
const NO_FINGERPRINT = ''

/**
 * Returns the request as the payment layer reads it. Links are built from `PUBLIC_URL`, so only the path is
 * used.
 */
export function toRequestPaymentContext(request: FastifyRequest): PaymentRequestContext {
  const { headers, url } = request
  const [path = ''] = url.split('?', 1)
  const body = (request.rawBody as Buffer | undefined) ?? NO_BODY
  const brings = request.server.services.paying.hasPayment({ headers })
  if (!brings) return { path, body, headers, fingerprint: NO_FINGERPRINT }
  const [address, key] = [request.caller.visitorId, parseIdempotencyKey(request)]
  return { path, body, headers, fingerprint: fingerprintRequest(request), address, key }
}
