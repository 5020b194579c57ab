import { toProblemDocument, ServiceError, httpStatusOf } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'

/** Why the answer of a request is not kept for a repetition of it. */
export type UnstoredResponseReason = 'too_large' | 'daily_bytes'

const MIB = 1024 * 1024

/** The reason in words, for the answer and for its repetition. */
export const describeUnstoredReason = (reason: UnstoredResponseReason): string =>
  reason === 'too_large'
    ? `Answers of free calls above ${LIMITS.storedResponseMaxBytes} bytes are not kept.`
    : `The answers kept for this agent today have reached ${LIMITS.storedResponseBytesPerDay / MIB} MiB; it begins again at midnight UTC.`

/**
 * What stands in the place of an answer that is not kept: a repetition hears that the request was
 * served, and is never served a second time under its key (decision 157).
 */
export function unstoredResponsePlaceholder(
  reason: UnstoredResponseReason,
  requestId: string,
): string {
  const error = new ServiceError('answer_not_kept', {
    detail: `The request was served, and its answer was given once. ${describeUnstoredReason(reason)}`,
    reason,
    request_id: requestId,
  })
  // Its links are relative: commands know no address of the station.
  const body = toProblemDocument(
    error,
    { publicUrl: '', deposits: false },
    `urn:request:${requestId}`,
  )
  return JSON.stringify({ status: httpStatusOf(error.code), body })
}
