import { ServiceError } from '../core/errors.ts'
import type { CallParts } from './calls.ts'

/** What a caller may be told of an error: a lost database is no bug, and a bug has no details. */
export function expected(
  parts: Pick<CallParts, 'isOutage' | 'log'>,
  message: string,
  error: unknown,
): ServiceError {
  if (error instanceof ServiceError) return error
  parts.log(message, error)
  return parts.isOutage(error)
    ? new ServiceError('unavailable', { retry_after: 2 }, error)
    : new ServiceError('internal', {}, error)
}
