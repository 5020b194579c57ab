/** Recognises statements that failed because of others at the same time. */

/** serialization_failure, deadlock_detected, lock_not_available, query_canceled (statement_timeout). */
const CONCURRENCY_CODES = /^(40001|40P01|55P03|57014)$/

/** True if the same statement may succeed later, and nothing of it was stored. */
export const isPostgresConcurrencyError = (error: unknown): boolean =>
  error instanceof Error &&
  'code' in error &&
  typeof error.code === 'string' &&
  CONCURRENCY_CODES.test(error.code)
