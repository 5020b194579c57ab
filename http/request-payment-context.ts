import type { FastifyRequest } from 'fastify'
import { readPaymentHeader } from '../chain/find-request-payment-header.ts'
import type { PaymentRequestContext } from '../payments/payment-service-types.ts'
import { fingerprintRequest, parseIdempotencyKey } from './http-idempotency-keys.ts'

/** Adapts Fastify requests to the payment layer. */

const NO_BODY = Buffer.alloc(0)
const NO_FINGERPRINT = ''

/** Returns the raw body of a request; empty if it has none. */
export const toRawBody = (request: FastifyRequest): Buffer =>
  (request.rawBody as Buffer | undefined) ?? NO_BODY

/**
 * Returns the request as the payment layer reads it. Links are built from `PUBLIC_URL`, so only the path is
 * used.
 */
export function toRequestPaymentContext(request: FastifyRequest): PaymentRequestContext {
  const { url } = request
  const query = url.indexOf('?')
  const path = query < 0 ? url : url.slice(0, query)
  const body = toRawBody(request)
  const paymentHeader = readPaymentHeader(request.headers)
  if (paymentHeader === null) return { path, body, paymentHeader, fingerprint: NO_FINGERPRINT }
  const [address, key] = [request.caller.visitorId, parseIdempotencyKey(request)]
  return { path, body, paymentHeader, fingerprint: fingerprintRequest(request), address, key }
}
