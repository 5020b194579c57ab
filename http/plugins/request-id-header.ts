import type { RequestHook } from './request-hooks.ts'

/** Names the request in every answer. */

export const REQUEST_ID_HEADER = 'x-request-id'

/**
 * Sets `X-Request-Id`: the id that problems have as `instance` and the log as `reqId`. Set first and on the
 * reply, so that refusals, 304 and streams have it too; input that never becomes a request gets one from
 * `toRawProblemResponse`.
 */
export const setRequestIdHeader: RequestHook = (request, reply) =>
  void reply.header(REQUEST_ID_HEADER, request.id)
