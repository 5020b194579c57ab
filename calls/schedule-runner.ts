import type { ActorSystem, CommandContext } from '../actors/aggregate-command-types.ts'
import {
  completeScheduleRun,
  canEndScheduleRun,
  canScheduleRunPublishToHive,
  getScheduleCommand,
  failScheduleRunCommand,
  isUnderfundedScheduleRunRetryable,
  type ScheduleRunOutcome,
  type ScheduleView,
} from '../actors/commands/schedule-aggregate-commands.ts'
import { ServiceError, type ErrorCode } from '../core/errors.ts'
import { toExactJson } from '../core/json/exact.ts'
import { newUuidV7 } from '../core/ids-and-api-keys.ts'
import type { ApiKeySpendingLimits } from '../domain/api-key-spending-limits.ts'
import { LIMITS } from '../core/limits.ts'
import { fromUsdc, ZERO_MICROS, type Micros } from '../core/money.ts'
import { SCHEDULE_RUN_FEE } from '../domain/pricing.ts'
import { scheduleVisitorId } from '../domain/visitor-id-of-scheduled-calls.ts'
import {
  toCallerConnectionFromSignal,
  type CallDeps,
  type CallReply,
  type CallRequest,
  type CallService,
  type CallOutcome,
} from './call-request-and-reply-types.ts'
import { toCallError } from './to-call-error.ts'

/** A due slot of a schedule with the tool's params. */
export interface DueScheduleSlot {
  readonly agentId: string
  readonly scheduleId: string
  readonly slot: number
  /** Database time in milliseconds. */
  readonly at: number
  readonly params: Record<string, unknown>
}

/** The current key of a rotation chain. */
interface KeySuccessor {
  readonly terms: ApiKeySpendingLimits
  readonly endReason: 'key_revoked' | 'key_expired' | null
}

export interface ScheduleRunnerDeps extends Pick<CallDeps, 'isOutage' | 'log'> {
  readonly actors: ActorSystem
  readonly calls: Pick<CallService, 'refuel'>
  /** The current key of a key family, and why it ended, if it did. */
  readonly findKeySuccessor: (familyId: string) => Promise<KeySuccessor | null>
}

/** Errors after which the slot stays due and is retried. */
const RETRYABLE_RUN_ERRORS: ReadonlySet<ErrorCode> = new Set([
  'unavailable',
  'overloaded',
  'cancelled',
  'idempotency_in_flight',
  'snapshot_too_new',
  'quarantined',
])

/**
 * Runs a slot as a normal call. The slot ends in the commit of the charge, so it is charged at most
 * once on any number of nodes and retries. Rejects when it should be retried.
 */
export function createScheduleRunner(parts: ScheduleRunnerDeps) {
  const { actors, calls, findKeySuccessor } = parts

  async function run(due: DueScheduleSlot, signal: AbortSignal): Promise<void> {
    const { agentId, scheduleId, slot } = due
    const touch = [{ kind: 'schedule', id: scheduleId }] as const
    const schedule = await actors.ask(agentId, getScheduleCommand, { scheduleId }, { touch })
    if (schedule.state !== 'enabled' || schedule.slot !== slot) return
    try {
      const key =
        schedule.keyId === null ? null : workingKey(await findKeySuccessor(schedule.keyId))
      assertRunExecuted(await calls.refuel(toCallRequest(due, schedule, key, signal)))
    } catch (error) {
      const failure = toCallError(parts, `schedule ${scheduleId} failed`, error)
      if (RETRYABLE_RUN_ERRORS.has(failure.code)) throw failure
      // A call that had started has ended its slot; this command then does nothing.
      const missed = failureOf({ ...due, budget: schedule.budget }, null, failure)
      await actors.ask(agentId, failScheduleRunCommand, missed, { touch })
    }
  }

  return { run }
}
export type ScheduleRunner = ReturnType<typeof createScheduleRunner>

/** Throws when the key has ended. */
function workingKey(successor: KeySuccessor | null): ApiKeySpendingLimits {
  if (successor === null) throw new ServiceError('key_revoked')
  if (successor.endReason !== null)
    throw new ServiceError(successor.endReason, { key_id: successor.terms.id })
  return successor.terms
}

/** A stored error from a lost call's timer ended the call but not the slot. */
function assertRunExecuted({ replayed, status, body }: CallReply): void {
  if (replayed && status >= 400) throw new ServiceError(body['code'] as ErrorCode)
}

/** Contains spaces, so no caller's key can be equal. */
const runKey = ({ scheduleId, slot }: DueScheduleSlot): string => `schedule ${scheduleId} ${slot}`

const SCHEDULE_PAYMENT_CONTEXT = {
  path: '/api/task/schedule',
  body: Buffer.alloc(0),
  paymentHeader: null,
  fingerprint: '',
}

function toCallRequest(
  due: DueScheduleSlot,
  { tool, budget, backpackId }: ScheduleView,
  key: ApiKeySpendingLimits | null,
  signal: AbortSignal,
): CallRequest {
  const { agentId, scheduleId } = due
  const slotKey = runKey(due)
  return {
    tool,
    body: due.params,
    caller: {
      agentId,
      key,
      keyStatus: 'valid',
      visitorId: scheduleVisitorId(agentId),
      siteId: null,
    },
    taskId: null,
    backpackId: backpackId ?? key?.backpackId ?? null,
    ghost: 'off',
    idempotency: { key: slotKey, hash: slotKey },
    door: SCHEDULE_PAYMENT_CONTEXT,
    connection: toCallerConnectionFromSignal(signal),
    requestId: scheduleId,
    run: {
      scheduleId,
      fee: SCHEDULE_RUN_FEE,
      budget,
      onEnded: (ctx, ending) => endScheduleSlot(ctx, { ...due, budget }, ending),
    },
  }
}

/** A started run with its budget. A later change applies to the next run. */
interface StartedScheduleRun extends DueScheduleSlot {
  readonly budget: Micros
}

/**
 * Runs in the commit of the call. Throws for a slot that has ended, which also cancels the charge.
 */
function endScheduleSlot(
  ctx: CommandContext,
  due: StartedScheduleRun,
  { call, output, error }: CallOutcome,
): void {
  const { scheduleId, slot, at, budget } = due
  if (error !== null) {
    const failed = failureOf(due, call.callId, error)
    if (
      RETRYABLE_RUN_ERRORS.has(error.code) ||
      isUnderfundedScheduleRunRetryable(ctx, failed) ||
      !canEndScheduleRun(ctx, due)
    )
      return
    return completeScheduleRun(ctx, failed)
  }
  const { callId, cost } = call
  const text = toExactJson(output)
  const result = Buffer.byteLength(text) > LIMITS.scheduleResultBytes ? null : text
  const { context } = ctx.snapshotOf('schedule', scheduleId)
  const { name, tool } = context
  completeScheduleRun(ctx, { scheduleId, slot, at, callId, cost, budget, result, error: null })
  if (canScheduleRunPublishToHive(ctx, context))
    ctx.row('hive_entries', toHiveEntry(ctx, { name, tool, callId, at, text }))
}

function failureOf(
  { scheduleId, slot, at, budget }: StartedScheduleRun,
  callId: string | null,
  failure: ServiceError,
) {
  const { code, details } = failure
  // The amount this run lacked, which may differ from the tool's list price.
  const price = details['needed_usdc'] ?? details['price_usdc']
  const needed = typeof price === 'number' ? fromUsdc(price) : SCHEDULE_RUN_FEE
  return {
    ...{ scheduleId, slot, at, budget, callId },
    cost: ZERO_MICROS,
    result: null,
    error: { code, needed },
  } satisfies ScheduleRunOutcome
}

interface ScheduleFinding {
  readonly name: string
  readonly tool: string
  readonly callId: string
  readonly at: number
  readonly text: string
}

/** Maximum content length of `hive_write`; longer results are cut. */
const MAX_ENTRY_CHARS = 2_000

function toHiveEntry(ctx: CommandContext, { name, tool, callId, at, text }: ScheduleFinding) {
  const when = new Date(at).toISOString()
  const content = `Scheduled run of ${tool} (${name}) at ${when}: ${text}`
  return {
    id: newUuidV7(ctx.now),
    agent_id: ctx.aggregateId,
    content: wholeCharacters(content.slice(0, MAX_ENTRY_CHARS)),
    namespace: 'general',
    tags: ['schedule', tool],
    confidence: 0.8,
    is_public: true,
    call_id: callId,
    at: when,
    ghost: false,
  }
}

/** Removes half a surrogate pair at the cut: Postgres would reject it and the whole commit. */
const wholeCharacters = (text: string): string => text.replace(/[\uD800-\uDBFF]$/, '')
