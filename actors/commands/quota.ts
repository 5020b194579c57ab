import { untilNextDay, utcDay } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { NotKept } from '../../core/not-kept.ts'
import type { Quota } from '../../core/rows.ts'
import type { Turn } from '../command.ts'
import type { EventOf } from '../registry.ts'

interface Quoted {
  readonly callId: string
  readonly tool: string
  readonly quota?: Quota | undefined
}

/** Counts a call that is let in; refuses with `quota_exceeded` where there were too many today. */
export function takeQuota(turn: Turn, { callId, tool, quota }: Quoted): void {
  if (quota === undefined) return
  const { most } = quota
  step(turn, { type: 'TAKE', callId, tool, most, at: turn.now }, most)
}

/** Whether a call would be let in; counts nothing. */
export function askQuota(turn: Turn, { tool, quota }: Quoted): void {
  if (quota === undefined) return
  const { most } = quota
  // An agent that never called has all of it.
  if (turn.has('quota', turn.aggregateId))
    step(turn, { type: 'ASK', tool, most, at: turn.now }, most)
}

/** The call has ended: it counts, or it is given back. Nothing where no quota was taken for it. */
export function endQuota(turn: Turn, callId: string, type: 'KEEP' | 'GIVE_BACK'): void {
  if (turn.has('quota', turn.aggregateId)) turn.step('quota', turn.aggregateId, { type, callId })
}

/**
 * Counts an answer that is kept and cost nothing; says why it is not kept where it is too long, or
 * there are too many of this day. In the commit of the call, so that no two nodes keep more.
 */
export function storeAnswer(turn: Turn, bytes: number): NotKept | null {
  if (bytes > LIMITS.keptAnswerBytes) return 'too_large'
  if (bytes <= LIMITS.keptUncountedBytes) return null
  const agentId = turn.aggregateId
  if (!turn.has('quota', agentId)) turn.create('quota', agentId, { agentId })
  const most = LIMITS.keptBytesPerDay
  const { day, kept } = turn.peek('quota', agentId).context
  if (utcDay(turn.now) <= day && kept + bytes > most) return 'daily_bytes'
  turn.step('quota', agentId, { type: 'STORE', bytes, most, at: turn.now })
  return null
}

function step(turn: Turn, event: EventOf<'quota'>, most: number): void {
  const agentId = turn.aggregateId
  if (!turn.has('quota', agentId)) turn.create('quota', agentId, { agentId })
  try {
    turn.step('quota', agentId, event)
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'quota_exceeded')
      Object.assign(error.details, {
        limit_source: 'quota',
        limit_calls: most,
        detail: `Only ${most} calls a day of this tool for each agent: they begin again at midnight UTC.`,
        retry_after: Math.ceil(untilNextDay(turn.now) / 1000),
      })
    throw error
  }
}
