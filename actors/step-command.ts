import { ServiceError } from '../core/errors.ts'
import { ZERO } from '../core/money.ts'
import { keptInstead } from '../core/not-kept.ts'
import type { CallRow, JournalRow } from '../core/rows.ts'
import type { StoredActor } from '../persistence/stored.ts'
import { dehydrate, softChanges, type Aggregate } from './aggregate.ts'
import type { Receipt, Turn } from './command.ts'
import { storeAnswer } from './commands/quota.ts'
import type { Job } from './mailbox.ts'
import { changedText, commandText, isEmpty, openTurn, Refusal } from './turn.ts'
import type { Effects } from './turn.ts'

/** What is to be done with a command that has been stepped. */
export type Stepped =
  /** It changed something: this goes into the next commit. */
  | ({ readonly then: 'commit' } & Changes)
  /** It changed nothing: its answer is given once the version it stands on has been checked. */
  | { readonly then: 'assert' }
  /** It changed holds in memory only, or it is a bug: answered at once. */
  | { readonly then: 'answer' }

interface Changes {
  readonly effects: Effects
  readonly actors: readonly (StoredActor & { readonly atRest: boolean })[]
  readonly journal: JournalRow
}

/** Runs a command on local variables over the state, and leaves its answer in the job. */
export function stepCommand(job: Job, state: Aggregate, now: number): Stepped {
  const { cell, command, options } = job
  const soft = softChanges(cell.soft)
  const turn = openTurn(cell.id, state, soft, now)
  job.soft = null
  try {
    if (state.version === 0 && command.creates !== true) {
      throw new ServiceError('agent_not_found', { agent_id: cell.id })
    }
    const result = command.apply(turn, job.input)
    if (options.receipt !== undefined) turn.call(receiptRow(turn, job, options.receipt, result))
    const stepped: Stepped = isEmpty(turn.effects)
      ? { then: soft.changed ? 'answer' : 'assert' }
      : toCommit(job, state, turn.effects, now)
    job.answer = () => job.resolve(result)
    job.soft = soft.changed ? soft : null
    soft.apply()
    return stepped
  } catch (error) {
    job.answer = () => job.reject(error)
    const facts = error instanceof Refusal ? error.facts : null
    if (facts !== null) return toCommit(job, state, facts, now)
    return { then: error instanceof ServiceError ? 'assert' : 'answer' }
  }
}

function toCommit(job: Job, state: Aggregate, effects: Effects, at: number): Stepped {
  const actors = [...effects.dirty.values()].map(dehydrate)
  job.wrote = effects.calls.flatMap(({ idempotencyKey: key }) => (key === null ? [] : [key]))
  const journal = {
    version: state.version + 1,
    commandId: job.id,
    at,
    command: commandText(job.command.name, job.command.note?.(job.input)),
    changed: changedText(actors),
  }
  return { then: 'commit', effects, actors, journal }
}

/** The row that keeps an answer under its Idempotency-Key, in the commit of the command. */
function receiptRow(turn: Turn, job: Job, receipt: Receipt, result: unknown): CallRow {
  const { operation, key, hash, keyId, present } = receipt
  const response = JSON.stringify(present(result))
  const reason = job.cell.kind === 'agent' ? storeAnswer(turn, Buffer.byteLength(response)) : null
  receipt.stored?.(reason)
  return {
    callId: job.id,
    agentId: job.cell.kind === 'agent' ? job.cell.id : null,
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
    response: reason === null ? response : keptInstead(reason, job.id),
    at: turn.now,
  }
}
