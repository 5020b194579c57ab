import { msUntilNextUtcDay, utcDay } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { UnstoredResponseReason } from '../../domain/unstored-response.ts'
import type { DailyToolQuota } from '../../core/commit-rows.ts'
import type { CommandContext } from '../command.ts'
import type { ActorMachineEvent } from '../machine-registry.ts'

interface QuotaCall {
  readonly callId: string
  readonly tool: string
  readonly quota?: DailyToolQuota | undefined
}

/** Counts a call that is let in; refuses with `quota_exceeded` where there were too many today. */
export function reserveDailyQuota(ctx: CommandContext, { callId, tool, quota }: QuotaCall): void {
  if (quota === undefined) return
  const { most } = quota
  sendToQuota(ctx, { type: 'TAKE', callId, tool, most, at: ctx.now }, most)
}

/** Whether a call would be let in; counts nothing. */
export function checkDailyQuota(ctx: CommandContext, { tool, quota }: QuotaCall): void {
  if (quota === undefined) return
  const { most } = quota
  // An agent that never called has all of it.
  if (ctx.has('quota', ctx.aggregateId))
    sendToQuota(ctx, { type: 'ASK', tool, most, at: ctx.now }, most)
}

/** The call has ended: it counts, or it is given back. Nothing where no quota was taken for it. */
export function settleDailyQuota(
  ctx: CommandContext,
  callId: string,
  type: 'KEEP' | 'GIVE_BACK',
): void {
  if (ctx.has('quota', ctx.aggregateId)) ctx.send('quota', ctx.aggregateId, { type, callId })
}

/**
 * Counts an answer that is kept and cost nothing; says why it is not kept where it is too long, or
 * there are too many of this day. In the commit of the call, so that no two nodes keep more.
 */
export function countStoredAnswerBytes(
  ctx: CommandContext,
  bytes: number,
): UnstoredResponseReason | null {
  if (bytes > LIMITS.storedResponseMaxBytes) return 'too_large'
  if (bytes <= LIMITS.uncountedResponseBytes) return null
  const agentId = ctx.aggregateId
  if (!ctx.has('quota', agentId)) ctx.create('quota', agentId, { agentId })
  const most = LIMITS.storedResponseBytesPerDay
  const { day, kept } = ctx.snapshotOf('quota', agentId).context
  if (utcDay(ctx.now) <= day && kept + bytes > most) return 'daily_bytes'
  ctx.send('quota', agentId, { type: 'STORE', bytes, most, at: ctx.now })
  return null
}

function sendToQuota(ctx: CommandContext, event: ActorMachineEvent<'quota'>, most: number): void {
  const agentId = ctx.aggregateId
  if (!ctx.has('quota', agentId)) ctx.create('quota', agentId, { agentId })
  try {
    ctx.send('quota', agentId, event)
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'quota_exceeded')
      Object.assign(error.details, {
        limit_source: 'quota',
        limit_calls: most,
        detail: `Only ${most} calls a day of this tool for each agent: they begin again at midnight UTC.`,
        retry_after: Math.ceil(msUntilNextUtcDay(ctx.now) / 1000),
      })
    throw error
  }
}
