import { ServiceError } from '../core/errors.ts'
import type { CallDeps } from './call-request-and-reply-types.ts'

/**
 * Converts an error for the caller: `unavailable` for a lost database, `internal` without details
 * for a bug.
 */
export function toCallError(
  parts: Pick<CallDeps, 'isOutage' | 'log'>,
  message: string,
  error: unknown,
): ServiceError {
  if (error instanceof ServiceError) return error
  parts.log(message, error)
  return parts.isOutage(error)
    ? new ServiceError('unavailable', { retry_after: 2 }, error)
    : new ServiceError('internal', {}, error)
}

/** The database did not answer after the commit was sent: it may have landed. */
export const toUnknownChargeError = (error: ServiceError, callId: string): ServiceError =>
  new ServiceError(
    'unavailable',
    {
      ...error.details,
      call_id: callId,
      detail:
        'It is not known yet whether this call was charged. Repeat it with its Idempotency-Key to find out.',
    },
    error,
  )
