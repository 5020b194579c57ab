import type { ErrorCode } from '../core/errors.ts'
import type { MachineEventRejection } from './machine-event-rejection.ts'

/**
 * Aggregates without states. A reducer computes the next context from an event, or rejects the
 * event. The runtime steps, stores and shows it like a machine.
 */

/** Returned by a reducer instead of a context. */
export class RejectedByReducer {
  readonly rejection: MachineEventRejection
  constructor(rejection: MachineEventRejection) {
    this.rejection = rejection
  }
}

export const createReducerRejection = (
  code: ErrorCode,
  details: Readonly<Record<string, unknown>> = {},
): RejectedByReducer => new RejectedByReducer({ code, ...details })

interface ReducerEvent {
  readonly type: string
}

/** A handler returns the same context for an event that is accepted and changes nothing. */
export interface Reducer<Context, Event extends ReducerEvent, Input> {
  readonly id: string
  initial(input: Input): Context
  readonly on: {
    readonly [Type in Event['type']]: (
      context: Context,
      event: Extract<Event, { readonly type: Type }>,
    ) => Context | RejectedByReducer
  }
}

/** A reducer of any context, events and input. */
export interface AnyReducer {
  readonly id: string
  initial(input: never): object
  readonly on: Readonly<Record<string, (context: never, event: never) => object>>
}
export type ReducerContext<R extends AnyReducer> = ReturnType<R['initial']>
export type ReducerInput<R extends AnyReducer> = Parameters<R['initial']>[0]
export type ReducerEventOf<R extends AnyReducer> = Parameters<R['on'][keyof R['on']]>[1]

/** Has the fields of a machine snapshot. There is no state, so `value` is null. */
export interface ReducerSnapshot<Context> {
  readonly status: 'active'
  readonly value: null
  readonly context: Context
  readonly tags: ReadonlySet<string>
}

const NO_TAGS: ReadonlySet<string> = new Set()
export const toReducerSnapshot = <Context>(context: Context): ReducerSnapshot<Context> => ({
  status: 'active',
  value: null,
  context,
  tags: NO_TAGS,
})
