import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { DAY, SECOND } from '../../core/clock.ts'
import { ServiceError, httpStatusOf, type ErrorCode } from '../../core/errors.ts'
import { toProblemDocument, type ProblemDocumentContext } from '../../core/problem-document.ts'
import { LIMITS } from '../../core/limits.ts'
import { PaymentRequiredError } from '../../payments/payment-required-error.ts'
import { acceptsHtml } from '../accepts-html.ts'
import { requestPath } from '../request-path.ts'
import type { PageRenderers } from '../page-renderers.ts'
import { sendHtmlPage } from '../html-page-reply.ts'
import { bodyNotJsonError, bodyTooLargeError } from './body-parser.ts'
import { isDatabaseUnavailableError } from '../detect-database-unavailable-error.ts'
import { describeMalformedCredentials } from '../auth/request-api-key-extraction.ts'
import { toRawBody } from '../request-payment-context.ts'
import { ErrorCodeSchema, ProblemSchema } from '../schemas/shared-schemas.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'
import { REQUEST_ID_HEADER } from './request-id-header.ts'
import { toRequestValidationIssues } from './request-schema-validation.ts'

/** Turns every error into an RFC 9457 problem document. */

const RETRY_SECONDS = 2

/** Sends every failure as a problem document; `core/errors.ts` alone decides its status. */
export function installErrorHandler(app: FastifyInstance, services: HttpServices): void {
  app.addSchema(ErrorCodeSchema)
  app.addSchema(ProblemSchema)
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const known = routeError(request, error) ?? toHttpServiceError(error, request)
    services.plane.storage.failed(error)
    if (known === null) request.log.error({ reqId: request.id, err: error }, 'unexpected error')
    const { agentId, apiKey, id: requestId } = request
    services.explained.note(known, { agentId, keyId: apiKey?.id ?? null, requestId })
    const shown = known ?? new ServiceError('internal')
    const page = isForBrowser(request) ? services.pages.error : null
    return sendProblemDetails(reply, shown, services.config, page)
  })
  const routes = allowedMethods(app)
  app.setNotFoundHandler((request) => {
    throw unknownRouteError(request)
  })

  function unknownRouteError(request: FastifyRequest): ServiceError {
    const path = requestPath(request).split('?', 1)[0] ?? ''
    const allow = routes(path.replace(/(.)\/$/, '$1'))
    return allow.length === 0
      ? new ServiceError('not_found')
      : new ServiceError('method_not_allowed', { allow })
  }

  /** Where there is no route, what Fastify finds wrong with the request first says nothing. */
  const routeError = (request: FastifyRequest, error: FastifyError): ServiceError | null =>
    request.is404 && isFastifyRefusal(error) ? unknownRouteError(request) : null
}

/** Browsers that open a page get an error as a page; below /api everybody gets the document. */
const isForBrowser = (request: FastifyRequest): boolean =>
  ['GET', 'HEAD'].includes(request.method) &&
  acceptsHtml(request) &&
  !/^\/api(?=[/?]|$)/.test(requestPath(request))

/** Sends a problem without the route's schema: a `4XX` schema would strip extension members. */
export function sendProblemDetails(
  reply: FastifyReply,
  error: ServiceError,
  origin: ProblemDocumentContext,
  page: PageRenderers['error'] | null = null,
): FastifyReply {
  const { request } = reply
  // A URL that cannot be read is refused before any hook.
  reply.header(REQUEST_ID_HEADER, request.id)
  const challenge = toPaymentChallenge(error, request)
  const document = { ...toRequestProblemDocument(error, request, origin), ...challenge.body }
  // A route may have said how long its answer may be kept, before it failed.
  if (String(reply.getHeader('cache-control') ?? '').startsWith('public'))
    reply.header('cache-control', 'no-store')
  reply.headers(challenge.headers)
  if (error.code === 'method_not_allowed' && Array.isArray(error.details['allow']))
    reply.header('allow', error.details['allow'].join(', '))
  if (error.code === 'unauthenticated') reply.header('www-authenticate', 'Bearer')
  reply.headers(limitHeaders(error, reply.getHeader('ratelimit')))
  const { retry_after: retryAfter } = error.details
  if (retryAfter !== undefined) reply.header('retry-after', String(Math.ceil(retryAfter)))
  reply.code(httpStatusOf(error.code))
  if (page !== null) {
    const { title, detail } = document as { title?: unknown; detail?: unknown }
    const { code } = error
    const words = { title: String(title), detail: String(detail), requestId: request.id }
    return sendHtmlPage(reply, page({ code, status: httpStatusOf(code), ...words }))
  }
  reply.type('application/problem+json')
  return reply.serializer(JSON.stringify).send(document)
}

/**
 * Returns the rate limit headers of a 429, also for daily calls and free calls (decision 13). Request rate
 * limits have set theirs already.
 */
function limitHeaders(
  { code, details }: ServiceError,
  sentHeader: unknown,
): Record<string, string> {
  if (httpStatusOf(code) !== 429) return {}
  const { limit_source: source, limit_calls: calls, limit, retry_after: seconds } = details
  const { window_seconds: window = DAY / SECOND } = details
  const quota = calls ?? limit
  if (typeof source !== 'string' || typeof quota !== 'number' || seconds === undefined) return {}
  if (calls === undefined && String(sentHeader).includes(';r=0;')) return {}
  return {
    'ratelimit-policy': `"${source}";q=${quota};w=${String(window)}`,
    ratelimit: `"${source}";r=0;t=${Math.ceil(seconds)}`,
  }
}

const NO_CHALLENGE = { headers: {}, body: {} }

/**
 * Returns the payment challenge in every supported protocol. Limits set by an owner have none (decision 9).
 */
function toPaymentChallenge(error: ServiceError, request: FastifyRequest) {
  if (!(error instanceof PaymentRequiredError) || error.offer === null) return NO_CHALLENGE
  const { reason } = error.details
  const { headers, body: fields } = request.server.services.paying.challenge(
    error.offer,
    toRawBody(request),
    typeof reason === 'string' ? reason : undefined,
  )
  return { headers: { 'cache-control': 'no-store', ...headers }, body: fields }
}

/** Returns the problem document of a request, also for replies that are streamed or results of MCP. */
export function toRequestProblemDocument(
  error: ServiceError,
  request: FastifyRequest,
  origin: ProblemDocumentContext,
): Record<string, unknown> {
  const complete = new ServiceError(error.code, toProblemDetails(error, request, origin.publicUrl))
  return toProblemDocument(complete, origin, `urn:request:${request.id}`)
}

function toProblemDetails(error: ServiceError, request: FastifyRequest, baseUrl: string) {
  if (error.code === 'payment_required') return toFundingDetails(error, request, baseUrl)
  if (error.code !== 'unauthenticated' || request.routeOptions.config.auth === 'operator')
    return error.details
  const detail = describeMalformedCredentials(request)
  const { keyStatus } = request.caller
  return { key_status: keyStatus, ...(detail === null ? {} : { detail }), ...error.details }
}

/** Tells an unpaid caller how to continue: fund its agent, or onboard one. */
function toFundingDetails({ details }: ServiceError, request: FastifyRequest, baseUrl: string) {
  if (request.agentId === '') {
    const remedy = { action: 'onboard', method: 'POST', url: `${baseUrl}/api/onboard` }
    return { remedy, ...details, key_status: request.caller.keyStatus }
  }
  const fundUrl = `${baseUrl}/fund/${request.agentId}`
  return { agent_id: request.agentId, fund_url: fundUrl, ...details }
}

/** Returns the error to show to the caller; null for a bug. */
export function toHttpServiceError(
  error: FastifyError,
  request?: FastifyRequest,
): ServiceError | null {
  if (error instanceof ServiceError) return error
  if (error.validation !== undefined) {
    const errors = toRequestValidationIssues(error.validation, error.validationContext ?? 'body')
    const detail = errors.map(({ pointer, detail }) => `${pointer} ${detail}`.trim()).join('; ')
    return new ServiceError('invalid_input', { detail, errors })
  }
  const mapped = fromFastifyError(error, request)
  if (mapped !== null) return mapped
  if (request?.socket.destroyed === true && error.code === 'ECONNRESET')
    return new ServiceError('cancelled')
  if (isDatabaseUnavailableError(error)) {
    return new ServiceError('unavailable', { retry_after: RETRY_SECONDS }, error)
  }
  return null
}

function fromFastifyError(error: FastifyError, request?: FastifyRequest): ServiceError | null {
  const { code, message } = error
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return bodyTooLargeError(request?.routeOptions.bodyLimit ?? LIMITS.bodyBytes)
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new ServiceError('unsupported_media_type')
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return bodyNotJsonError()
    default:
      if (!isFastifyRefusal(error)) return null
      return new ServiceError(CODES_BY_STATUS[error.statusCode ?? 0] ?? 'invalid_input', {
        detail: message,
      })
  }
}

/** Codes of refusals that a new version of Fastify may bring; the others are about the request too. */
const CODES_BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  404: 'not_found',
  405: 'method_not_allowed',
  408: 'request_timeout',
  413: 'body_too_large',
  415: 'unsupported_media_type',
  431: 'headers_too_large',
}

/** Whether Fastify refused the request, as opposed to a bug of ours or a refusal by somebody else. */
const isFastifyRefusal = ({ code, statusCode = 500 }: FastifyError): boolean =>
  String(code).startsWith('FST_') && statusCode >= 400 && statusCode < 500

/** Returns the methods that an address supports, to tell 405 from 404. */
function allowedMethods(app: FastifyInstance): (path: string) => string[] {
  const known: { method: string; pattern: RegExp }[] = []
  app.addHook('onRoute', ({ method, url }) => {
    if (url === '*' || url === '/*') return
    const source = url.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/:\w+/g, '[^/]+')
    const pattern = new RegExp(`^${source.replace('\\*', '.*')}$`)
    for (const one of [method].flat()) known.push({ method: one, pattern })
  })
  return (path) => {
    const fitting = known.filter(({ pattern }) => pattern.test(path))
    return [...new Set(fitting.map(({ method }) => method))].sort()
  }
}
