import { ServiceError } from '../core/errors.ts'

/** The errors of commands while the database does not answer. */

const DETAILS = { retry_after: 2, detail: 'The database does not answer.' }

/** `unavailable`, and certain: the command was in no commit that was sent, so it changed nothing. */
export class CommandNotCommittedError extends ServiceError {
  constructor(cause?: unknown) {
    super('unavailable', { ...DETAILS }, cause)
  }
}

/** `unavailable`: a commit with the command may have landed. */
export const commitOutcomeUnknownError = (cause?: unknown): ServiceError =>
  new ServiceError('unavailable', { ...DETAILS }, cause)
