import type { AggregateCommand, CommandContext } from '../../../actors/aggregate-command-types.ts'
import { machineRegistry, type ActorKind } from '../../../actors/machine-registry.ts'
import type { ActorState } from '../../../core/journal-actor-state-delta.ts'

/** Numbers a command in the journal, and returns the states that it left to its sender. */

/** An actor as a command left it. */
export interface ActorAfterCommand {
  readonly kind: ActorKind
  readonly id: string
  readonly state: ActorState
}

export interface TracedResult {
  readonly result: unknown
  /** Every actor in memory after the command; null where nobody asked. */
  readonly seen: readonly ActorAfterCommand[] | null
}

const KINDS = Object.keys(machineRegistry) as ActorKind[]

/**
 * The same command. Its number stands in the journal, so that its version is found there. The result
 * is that of the run which was committed: a run that lost to another node is not answered.
 */
export const traceCommand = (
  command: AggregateCommand<unknown, unknown>,
  number: number,
  isSampled: boolean,
  onRun: () => void,
): AggregateCommand<unknown, TracedResult> => ({
  ...command,
  apply(ctx, input) {
    onRun()
    const result = command.apply(ctx, input)
    return { result, seen: isSampled ? actorsInMemory(ctx) : null }
  },
  note: (input) => ({ ...command.note?.(input), number }),
})

const actorsInMemory = (ctx: CommandContext): ActorAfterCommand[] =>
  KINDS.flatMap((kind) => ctx.all(kind).map(({ id, snapshot }) => ({ kind, id, state: snapshot })))
