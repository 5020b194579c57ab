import { ServiceError } from '../../core/errors.ts'

/** Errors of the sandbox. */

export const sandboxBusyError = () => new ServiceError('sandbox_busy', { retry_after: 2 })

export const sandboxUnavailableError = (reason: string) =>
  new ServiceError('sandbox_unavailable', {
    retry_after: 30,
    detail: `The sandbox cannot start on this station: ${reason}. Nothing was run.`,
  })
