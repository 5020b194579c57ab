import type { ErrorCode } from '../core/errors.ts'

/** The rejection of an event by a machine or a reducer. */

/** The code of a rejection, and details of the error such as the exceeded limit. */
export interface MachineEventRejection {
  readonly code: ErrorCode
  readonly [detail: string]: unknown
}

/** What a machine emits when it rejects an event. */
export interface MachineRejectedEvent extends MachineEventRejection {
  readonly type: 'rejected'
}
