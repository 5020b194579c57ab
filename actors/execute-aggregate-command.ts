import { ServiceError } from '../core/errors.ts'
import { ZERO } from '../core/money.ts'
import { unstoredResponsePlaceholder } from '../domain/unstored-response-reasons.ts'
import type { CallRow, JournalRow } from '../core/commit-rows.ts'
import type { StoredActor } from '../persistence/stored-aggregate.ts'
import { toStoredActor, createInMemoryHoldChanges, type Aggregate } from './in-memory-aggregate.ts'
import type { CommandIdempotency, CommandContext } from './aggregate-command-types.ts'
import { countStoredReplyBytesToday } from './commands/daily-quota.ts'
import type { PendingCommand } from './aggregate-mailbox.ts'
import {
  serializeChangedActors,
  serializeCommand,
  hasNoEffects,
  createCommandContext,
  CommandRejectedError,
} from './command-context.ts'
import type { CommandEffects } from './command-context.ts'

/** What the runtime does next with a command that has run. */
export type CommandNextStep =
  /** It changed state: goes into the next commit. */
  | ({ readonly then: 'commit' } & CommandChanges)
  /** It changed nothing: answered after its version is checked. */
  | { readonly then: 'assert' }
  /** It changed only in-memory holds, or threw a bug: answered at once. */
  | { readonly then: 'answer' }

interface CommandChanges {
  readonly effects: CommandEffects
  readonly actors: readonly (StoredActor & { readonly archived: boolean })[]
  readonly journal: JournalRow
}

/** Runs a command on local variables over the state. Sets the command's `answer`. */
export function executeAggregateCommand(
  job: PendingCommand,
  state: Aggregate,
  now: number,
): CommandNextStep {
  const { mailbox, command, options } = job
  const soft = createInMemoryHoldChanges(mailbox.inMemoryHolds)
  const ctx = createCommandContext(mailbox.id, state, soft, now)
  job.holdChanges = null
  try {
    if (state.version === 0 && command.creates !== true) {
      throw new ServiceError('agent_not_found', { agent_id: mailbox.id })
    }
    const result = command.apply(ctx, job.input)
    if (options.receipt !== undefined) ctx.call(toIdempotencyRow(ctx, job, options.receipt, result))
    const stepped: CommandNextStep = hasNoEffects(ctx.effects)
      ? { then: soft.changed ? 'answer' : 'assert' }
      : toCommit(job, state, ctx.effects, now)
    job.answer = () => job.resolve(result)
    job.holdChanges = soft.changed ? soft : null
    soft.apply()
    return stepped
  } catch (error) {
    job.answer = () => job.reject(error)
    const emitted = error instanceof CommandRejectedError ? error.emittedEffects : null
    if (emitted !== null) return toCommit(job, state, emitted, now)
    return { then: error instanceof ServiceError ? 'assert' : 'answer' }
  }
}

function toCommit(
  job: PendingCommand,
  state: Aggregate,
  effects: CommandEffects,
  at: number,
): CommandNextStep {
  const actors = [...effects.dirty.values()].map(toStoredActor)
  job.writtenKeys = effects.calls.flatMap(({ idempotencyKey: key }) => (key === null ? [] : [key]))
  const journal = {
    version: state.version + 1,
    commandId: job.id,
    at,
    command: serializeCommand(job.command.name, job.command.note?.(job.input)),
    changed: serializeChangedActors(actors),
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
      ? countStoredReplyBytesToday(ctx, Buffer.byteLength(response))
      : null
  receipt.stored?.(reason)
  return {
    callId: job.id,
    agentId: job.mailbox.kind === 'agent' ? job.mailbox.id : null,
    keyId,
    operation,
    tool: null,
    rail: 'none',
    cost: ZERO,
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
