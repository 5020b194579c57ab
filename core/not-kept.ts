import { problem, ServiceError, statusOf } from './errors.ts'
import { LIMITS } from './limits.ts'

/** Why the answer of a request is not kept for a repetition of it. */
export type NotKept = 'too_large' | 'daily_bytes'

const MIB = 1024 * 1024

/** The reason in words, for the answer and for its repetition. */
export const whyNotKept = (reason: NotKept): string =>
  reason === 'too_large'
    ? `Answers of free calls above ${LIMITS.keptAnswerBytes} bytes are not kept.`
    : `The answers kept for this agent today have reached ${LIMITS.keptBytesPerDay / MIB} MiB; it begins again at midnight UTC.`

/**
 * What stands in the place of an answer that is not kept: a repetition hears that the request was
 * served, and is never served a second time under its key (decision 157).
 */
export function keptInstead(reason: NotKept, requestId: string): string {
  const error = new ServiceError('answer_not_kept', {
    detail: `The request was served, and its answer was given once. ${whyNotKept(reason)}`,
    reason,
    request_id: requestId,
  })
  // Its links are relative: commands know no address of the station.
  const body = problem(error, { publicUrl: '', deposits: false }, `urn:request:${requestId}`)
  return JSON.stringify({ status: statusOf(error.code), body })
}
