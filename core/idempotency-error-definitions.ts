/** Errors of requests with an Idempotency-Key: a part of the table in `errors.ts`. */
export const IDEMPOTENCY_ERROR_DEFINITIONS = {
  idempotency_key_reused: {
    status: 422,
    title: 'This Idempotency-Key was used with another request.',
  },
  answer_not_kept: {
    status: 410,
    title: 'The request was served, and its answer was not kept.',
    remedy: { action: 'repeat_with_another_idempotency_key' },
  },
  idempotency_in_flight: {
    status: 409,
    title: 'The first request with this Idempotency-Key is still running.',
  },
} as const
