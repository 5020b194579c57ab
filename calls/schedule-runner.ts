import type { ActorSystem, CommandContext } from '../actors/command.ts'
import {
  completeScheduleRun,
  canEndScheduleRun,
  canRunPublishToHive,
  getScheduleCommand,
  failScheduleRunCommand,
  isScheduleRunRetryable,
  type ScheduleRunOutcome,
  type ScheduleView,
} from '../actors/commands/schedules.ts'
import { ServiceError, type ErrorCode } from '../core/errors.ts'
import { newUuidV7 } from '../core/ids.ts'
import type { ApiKeyTerms } from '../domain/api-key-terms.ts'
import { LIMITS } from '../core/limits.ts'
import { fromUsdc, ZERO, type Micros } from '../core/money.ts'
import { SCHEDULE_RUN_FEE } from '../domain/pricing.ts'
import type { CallDeps, CallReply, CallRequest, CallService, CallOutcome } from './call-types.ts'
import { toCallError } from './to-call-error.ts'

/** A slot of a schedule that is due by the database's clock, and what it asks its tool. */
export interface DueScheduleSlot {
  readonly agentId: string
  readonly scheduleId: string
  readonly slot: number
  /** Now, in milliseconds by the database's clock. */
  readonly at: number
  readonly params: Record<string, unknown>
}

/** What `persistence/` says of a key, handed in. */
interface KeySuccessor {
  readonly terms: ApiKeyTerms
  readonly endReason: 'key_revoked' | 'key_expired' | null
}

export interface ScheduleRunnerDeps extends Pick<CallDeps, 'isOutage' | 'log'> {
  readonly actors: ActorSystem
  readonly calls: Pick<CallService, 'refuel'>
  /** The key of a family that works now, and how it has ended where it has. */
  readonly findKeySuccessor: (familyId: string) => Promise<KeySuccessor | null>
}

/** Failures that say nothing about the run: its slot stays due and is tried again. */
const RETRYABLE_RUN_ERRORS: ReadonlySet<ErrorCode> = new Set([
  'unavailable',
  'overloaded',
  'cancelled',
  'idempotency_in_flight',
  'snapshot_too_new',
  'quarantined',
])

/**
 * Runs the slot of a schedule the way every call goes. The slot ends in the commit of the charge, so
 * that it is charged at most once on any number of nodes, whatever runs it how often. Rejects when it
 * is to be tried again.
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
      const told = toCallError(parts, `schedule ${scheduleId} failed`, error)
      if (RETRYABLE_RUN_ERRORS.has(told.code)) throw told
      // A call that had begun has ended its slot with it: then nothing is left to be done here.
      const missed = failureOf({ ...due, budget: schedule.budget }, null, told)
      await actors.ask(agentId, failScheduleRunCommand, missed, { touch })
    }
  }

  return { run }
}
export type ScheduleRunner = ReturnType<typeof createScheduleRunner>

/** Nothing runs under a key that has ended, whatever node has heard of it. */
function workingKey(heir: KeySuccessor | null): ApiKeyTerms {
  if (heir === null) throw new ServiceError('key_revoked')
  if (heir.endReason !== null) throw new ServiceError(heir.endReason, { key_id: heir.terms.id })
  return heir.terms
}

/** What the timer of a lost call has answered ended the call, and knew nothing of its slot. */
function assertRunExecuted({ replayed, status, body }: CallReply): void {
  if (replayed && status >= 400) throw new ServiceError(body['code'] as ErrorCode)
}

/** No key of a caller can be this one: it holds blanks. */
const runKey = ({ scheduleId, slot }: DueScheduleSlot): string => `schedule ${scheduleId} ${slot}`

const SCHEDULE_PAYMENT_CONTEXT = {
  path: '/api/task/schedule',
  body: Buffer.alloc(0),
  headers: {},
  fingerprint: '',
}

function toCallRequest(
  due: DueScheduleSlot,
  { tool, budget, backpackId }: ScheduleView,
  key: ApiKeyTerms | null,
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
      visitorId: `schedule ${agentId}`,
      siteId: null,
    },
    taskId: null,
    backpackId: backpackId ?? key?.backpackId ?? null,
    ghost: 'off',
    idempotency: { key: slotKey, hash: slotKey },
    door: SCHEDULE_PAYMENT_CONTEXT,
    signal,
    requestId: scheduleId,
    run: {
      scheduleId,
      fee: SCHEDULE_RUN_FEE,
      budget,
      onEnded: (ctx, ending) => endScheduleSlot(ctx, { ...due, budget }, ending),
    },
  }
}

/** A run that has begun, and the budget it has: a change of it is for the next one. */
interface StartedScheduleRun extends DueScheduleSlot {
  readonly budget: Micros
}

/** In the commit of the call. A slot that has ended before refuses the charge with it. */
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
      isScheduleRunRetryable(ctx, failed) ||
      !canEndScheduleRun(ctx, due)
    )
      return
    return completeScheduleRun(ctx, failed)
  }
  const { callId, cost } = call
  const text = JSON.stringify(output)
  const result = Buffer.byteLength(text) > LIMITS.scheduleResultBytes ? null : text
  const { context } = ctx.snapshotOf('schedule', scheduleId)
  const { name, tool } = context
  completeScheduleRun(ctx, { scheduleId, slot, at, callId, cost, budget, result, error: null })
  if (canRunPublishToHive(ctx, context))
    ctx.row('hive_entries', toHiveEntry(ctx, { name, tool, callId, at, text }))
}

function failureOf(
  { scheduleId, slot, at, budget }: StartedScheduleRun,
  callId: string | null,
  told: ServiceError,
) {
  const { code, details } = told
  // What this run lacked, which the list price of its tool need not be.
  const price = details['needed_usdc'] ?? details['price_usdc']
  const needed = typeof price === 'number' ? fromUsdc(price) : SCHEDULE_RUN_FEE
  return {
    ...{ scheduleId, slot, at, budget, callId },
    cost: ZERO,
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

/** What `hive_write` takes: longer findings are cut. */
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
  }
}

/** Half of a pair at the cut: Postgres refuses it, and with it the whole commit. */
const wholeCharacters = (text: string): string => text.replace(/[\uD800-\uDBFF]$/, '')
