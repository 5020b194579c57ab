import { ServiceError, httpStatusOf } from '../core/errors.ts'
import { toProblemDocument } from '../core/problem-document.ts'
import { LIMITS } from '../core/limits.ts'

/** Why a response is not stored for repetitions. */
export type UnstoredResponseReason = 'too_large' | 'daily_bytes'

const MIB = 1024 * 1024

/** The reason in words, for the response and its repetition. */
export const describeUnstoredResponseReason = (reason: UnstoredResponseReason): string =>
  reason === 'too_large'
    ? `Answers of free calls above ${LIMITS.storedResponseMaxBytes} bytes are not kept.`
    : `The answers kept for this agent today have reached ${LIMITS.storedResponseBytesPerDay / MIB} MiB. The limit resets at midnight UTC.`

/**
 * Replaces a response that is not stored: a repetition learns that the request was served, and the
 * request never runs twice under its key (decision 157).
 */
export function unstoredResponsePlaceholder(
  reason: UnstoredResponseReason,
  requestId: string,
): string {
  const error = new ServiceError('answer_not_kept', {
    detail: `The request was served, and its answer was given once. ${describeUnstoredResponseReason(reason)}`,
    reason,
    request_id: requestId,
  })
  // Links are relative: commands do not know the station's URL.
  const body = toProblemDocument(
    error,
    { publicUrl: '', deposits: false },
    `urn:request:${requestId}`,
  )
  return JSON.stringify({ status: httpStatusOf(error.code), body })
}
