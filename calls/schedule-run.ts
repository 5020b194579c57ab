import type { Actors, Turn } from '../actors/command.ts'
import {
  endRun,
  mayEnd,
  mayPublish,
  scheduleGet,
  scheduleMiss,
  staysDue,
  type RunEnd,
  type ScheduleView,
} from '../actors/commands/schedules.ts'
import { ServiceError, type ErrorCode } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import type { KeyTerms } from '../core/key-terms.ts'
import { LIMITS } from '../core/limits.ts'
import { fromUsdc, ZERO, type Micros } from '../core/money.ts'
import { SCHEDULE_RUN } from '../core/prices.ts'
import type { CallParts, CallReply, CallRequest, Calls, Ending } from './calls.ts'
import { expected } from './expected.ts'

/** A slot of a schedule that is due by the database's clock, and what it asks its tool. */
export interface Slot {
  readonly agentId: string
  readonly scheduleId: string
  readonly slot: number
  /** Now, in milliseconds by the database's clock. */
  readonly at: number
  readonly params: Record<string, unknown>
}

/** What `persistence/` says of a key, handed in. */
interface Heir {
  readonly terms: KeyTerms
  readonly ended: 'key_revoked' | 'key_expired' | null
}

export interface ScheduleRunParts extends Pick<CallParts, 'isOutage' | 'log'> {
  readonly actors: Actors
  readonly calls: Pick<Calls, 'refuel'>
  /** The key of a family that works now, and how it has ended where it has. */
  readonly heirOf: (familyId: string) => Promise<Heir | null>
}

/** Failures that say nothing about the run: its slot stays due and is tried again. */
const PASSING: ReadonlySet<ErrorCode> = new Set([
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
export function scheduleRunner(parts: ScheduleRunParts) {
  const { actors, calls, heirOf } = parts

  async function run(due: Slot, signal: AbortSignal): Promise<void> {
    const { agentId, scheduleId, slot } = due
    const touch = [{ kind: 'schedule', id: scheduleId }] as const
    const schedule = await actors.ask(agentId, scheduleGet, { scheduleId }, { touch })
    if (schedule.state !== 'enabled' || schedule.slot !== slot) return
    try {
      const key = schedule.keyId === null ? null : workingKey(await heirOf(schedule.keyId))
      demandRun(await calls.refuel(requestOf(due, schedule, key, signal)))
    } catch (error) {
      const told = expected(parts, `schedule ${scheduleId} failed`, error)
      if (PASSING.has(told.code)) throw told
      // A call that had begun has ended its slot with it: then nothing is left to be done here.
      const missed = failureOf({ ...due, budget: schedule.budget }, null, told)
      await actors.ask(agentId, scheduleMiss, missed, { touch })
    }
  }

  return { run }
}
export type ScheduleRunner = ReturnType<typeof scheduleRunner>

/** Nothing runs under a key that has ended, whatever node has heard of it. */
function workingKey(heir: Heir | null): KeyTerms {
  if (heir === null) throw new ServiceError('key_revoked')
  if (heir.ended !== null) throw new ServiceError(heir.ended, { key_id: heir.terms.id })
  return heir.terms
}

/** What the timer of a lost call has answered ended the call, and knew nothing of its slot. */
function demandRun({ replayed, status, body }: CallReply): void {
  if (replayed && status >= 400) throw new ServiceError(body['code'] as ErrorCode)
}

/** No key of a caller can be this one: it holds blanks. */
const runKey = ({ scheduleId, slot }: Slot): string => `schedule ${scheduleId} ${slot}`

const DOOR = { path: '/api/task/schedule', body: Buffer.alloc(0), headers: {}, fingerprint: '' }

function requestOf(
  due: Slot,
  { tool, budget, backpackId }: ScheduleView,
  key: KeyTerms | null,
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
    door: DOOR,
    signal,
    requestId: scheduleId,
    run: {
      scheduleId,
      fee: SCHEDULE_RUN,
      budget,
      ended: (turn, ending) => end(turn, { ...due, budget }, ending),
    },
  }
}

/** A run that has begun, and the budget it has: a change of it is for the next one. */
interface Begun extends Slot {
  readonly budget: Micros
}

/** In the commit of the call. A slot that has ended before refuses the charge with it. */
function end(turn: Turn, due: Begun, { call, output, error }: Ending): void {
  const { scheduleId, slot, at, budget } = due
  if (error !== null) {
    const failed = failureOf(due, call.callId, error)
    if (PASSING.has(error.code) || staysDue(turn, failed) || !mayEnd(turn, due)) return
    return endRun(turn, failed)
  }
  const { callId, cost } = call
  const text = JSON.stringify(output)
  const result = Buffer.byteLength(text) > LIMITS.scheduleResultBytes ? null : text
  const { context } = turn.peek('schedule', scheduleId)
  const { name, tool } = context
  endRun(turn, { scheduleId, slot, at, callId, cost, budget, result, error: null })
  if (mayPublish(turn, context))
    turn.row('hive_entries', entryOf(turn, { name, tool, callId, at, text }))
}

function failureOf(
  { scheduleId, slot, at, budget }: Begun,
  callId: string | null,
  told: ServiceError,
) {
  const { code, details } = told
  // What this run lacked, which the list price of its tool need not be.
  const price = details['needed_usdc'] ?? details['price_usdc']
  const needed = typeof price === 'number' ? fromUsdc(price) : SCHEDULE_RUN
  return {
    ...{ scheduleId, slot, at, budget, callId },
    cost: ZERO,
    result: null,
    error: { code, needed },
  } satisfies RunEnd
}

interface Finding {
  readonly name: string
  readonly tool: string
  readonly callId: string
  readonly at: number
  readonly text: string
}

/** What `hive_write` takes: longer findings are cut. */
const LONGEST_ENTRY = 2_000

function entryOf(turn: Turn, { name, tool, callId, at, text }: Finding) {
  const when = new Date(at).toISOString()
  const content = `Scheduled run of ${tool} (${name}) at ${when}: ${text}`
  return {
    id: newId(turn.now),
    agent_id: turn.aggregateId,
    content: wholeCharacters(content.slice(0, LONGEST_ENTRY)),
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
