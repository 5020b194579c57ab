import { ServiceError } from '../core/errors.ts'
import type { CallDeps } from './call-types.ts'

/** What a caller may be told of an error: a lost database is no bug, and a bug has no details. */
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
