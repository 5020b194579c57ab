import { ServiceError } from '../core/errors.ts'
import { ZERO_MICROS } from '../core/money.ts'
import { unstoredResponsePlaceholder } from '../domain/unstored-response-reasons.ts'
import type { CallRow, AggregateCommandJournalRow } from '../core/aggregate-commit-row-types.ts'
import { createInMemoryHoldChanges, type LoadedAggregateActors } from './loaded-aggregate-state.ts'
import { toJournalChangesOfActors, type ChangedActor } from './changed-actors-to-journal-deltas.ts'
import type { CommandIdempotency, CommandContext } from './aggregate-command-types.ts'
import { countStoredReplyAgainstDailyByteLimit } from './commands/daily-call-and-stored-reply-quotas.ts'
import type { PendingCommand } from './aggregate-mailbox.ts'
import {
  serializeCommandForJournal,
  hasNoEffects,
  createCommandContext,
  CommandRejectedError,
} from './command-context.ts'
import type { CommandEffects } from './command-context.ts'
import { keepOnlyRejectedSteps } from './inspection/record-actor-step.ts'

/** What the runtime does next with a command that has run. */
export type ActorRuntimeStepAfterCommand =
  /** It changed state: goes into the next commit. */
  | ({ readonly then: 'commit' } & CommandChanges)
  /** It changed nothing: answered after its version is checked. */
  | { readonly then: 'assert' }
  /** It changed only in-memory holds, or threw a bug: answered at once. */
  | { readonly then: 'answer' }

interface CommandChanges {
  readonly effects: CommandEffects
  readonly actors: readonly ChangedActor[]
  readonly journal: AggregateCommandJournalRow
}

/** Runs a command on local variables over the state. Sets the command's `answer`. */
export function executeAggregateCommand(
  job: PendingCommand,
  state: LoadedAggregateActors,
  now: number,
  isWatched: boolean,
): ActorRuntimeStepAfterCommand {
  const { mailbox, command, options } = job
  job.recorded = isWatched ? { at: now, version: state.version, steps: [] } : null
  const soft = createInMemoryHoldChanges(mailbox.inMemoryHolds)
  const ctx = createCommandContext(mailbox.id, state, soft, now, job.recorded?.steps ?? null)
  job.holdChanges = null
  try {
    if (state.version === 0 && command.creates !== true) {
      throw new ServiceError('agent_not_found', { agent_id: mailbox.id })
    }
    const result = command.apply(ctx, job.input)
    if (options.receipt !== undefined) ctx.call(toIdempotencyRow(ctx, job, options.receipt, result))
    const stepped: ActorRuntimeStepAfterCommand = hasNoEffects(ctx.effects)
      ? { then: soft.changed ? 'answer' : 'assert' }
      : toCommit(job, state, ctx.effects, now)
    job.answer = () => job.resolve(result)
    job.holdChanges = soft.changed ? soft : null
    soft.apply()
    return stepped
  } catch (error) {
    job.answer = () => job.reject(error)
    const emitted = error instanceof CommandRejectedError ? error.emittedEffects : null
    if (job.recorded !== null) keepOnlyRejectedSteps(job.recorded.steps, emitted?.dirty)
    if (emitted !== null) return toCommit(job, state, emitted, now)
    return { then: error instanceof ServiceError ? 'assert' : 'answer' }
  }
}

function toCommit(
  job: PendingCommand,
  state: LoadedAggregateActors,
  effects: CommandEffects,
  at: number,
): ActorRuntimeStepAfterCommand {
  const version = state.version + 1
  const { changed, actors } = toJournalChangesOfActors(
    job.mailbox.id,
    version,
    state.actors,
    effects.dirty,
  )
  if (job.recorded !== null) job.recorded.version = version
  job.writtenKeys = effects.calls.flatMap(({ idempotencyKey: key }) => (key === null ? [] : [key]))
  const journal = {
    version,
    commandId: job.id,
    at,
    command: serializeCommandForJournal(job.command.name, job.command.note?.(job.input)),
    changed,
  }
  return { then: 'commit', effects, actors, journal }
}

/** The row that stores the response under its Idempotency-Key, in the commit of the command. */
function toIdempotencyRow(
  ctx: CommandContext,
  job: PendingCommand,
  receipt: CommandIdempotency,
  result: unknown,
): CallRow {
  const { operation, key, hash, keyId, present } = receipt
  const response = JSON.stringify(present(result))
  const reason =
    job.mailbox.kind === 'agent'
      ? countStoredReplyAgainstDailyByteLimit(ctx, Buffer.byteLength(response))
      : null
  receipt.stored?.(reason)
  return {
    callId: job.id,
    agentId: job.mailbox.kind === 'agent' ? job.mailbox.id : null,
    keyId,
    operation,
    tool: null,
    rail: 'none',
    cost: ZERO_MICROS,
    status: 'ok',
    errorCode: null,
    ms: 0,
    taskId: null,
    backpackId: null,
    ghost: false,
    idempotencyKey: key,
    requestHash: hash,
    response: reason === null ? response : unstoredResponsePlaceholder(reason, job.id),
    at: ctx.now,
  }
}
