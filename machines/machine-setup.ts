import { emit, setup, type EventObject, type MachineContext } from 'xstate'
import type { MachineRejectedEvent, MachineEventRejection } from './machine-event-rejection.ts'

/**
 * The base of every machine. A rejection is the emitted event `rejected`; the tag `ended` marks a
 * life that is over, though it may still settle what is open.
 */
export const createBaseMachineSetup = <
  Context extends MachineContext,
  Event extends EventObject,
  Input,
  Emitted extends EventObject = MachineRejectedEvent,
>() =>
  setup({
    types: {} as {
      context: Context
      events: Event
      input: Input
      emitted: MachineRejectedEvent | Emitted
      tags: 'ended'
    },
    actions: {
      reject: emit((_, rejection: MachineEventRejection) => ({
        ...rejection,
        type: 'rejected' as const,
      })),
    },
  })

/**
 * The event of a type, as guards and actions take it in their params. In a config, params are
 * literals or the event itself (`({ event }) => event`), so that its JSON says everything.
 */
export type EventOfType<Event extends EventObject, Type extends Event['type']> = Extract<
  Event,
  { readonly type: Type }
>
