import { msUntilNextUtcDay, utcDay } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { UnstoredResponseReason } from '../../domain/unstored-response-reasons.ts'
import type { DailyToolQuota } from '../../core/aggregate-commit-row-types.ts'
import type { CommandContext } from '../aggregate-command-types.ts'
import type { ActorMachineEvent } from '../machine-registry.ts'

/** Daily call quotas of tools and the daily volume of stored responses, per agent. */

interface QuotaCall {
  readonly callId: string
  readonly tool: string
  readonly quota?: DailyToolQuota | undefined
}

/** Reserves one call of today's quota. Throws `quota_exceeded` when it is used up. */
export function reserveDailyToolCallQuota(
  ctx: CommandContext,
  { callId, tool, quota }: QuotaCall,
): void {
  if (quota === undefined) return
  const { most: max } = quota
  sendToQuota(ctx, { type: 'TAKE', callId, tool, most: max, at: ctx.now }, max)
}

/** Throws `quota_exceeded` when a call would exceed the quota. Counts nothing. */
export function assertDailyToolCallQuotaLeft(
  ctx: CommandContext,
  { tool, quota }: QuotaCall,
): void {
  if (quota === undefined) return
  const { most: max } = quota
  // An agent without a quota actor has used none of it.
  if (ctx.has('quota', ctx.aggregateId))
    sendToQuota(ctx, { type: 'ASK', tool, most: max, at: ctx.now }, max)
}

/** Counts or returns the reserved call. Does nothing when none was reserved. */
export function settleDailyToolCallQuota(
  ctx: CommandContext,
  callId: string,
  type: 'KEEP' | 'GIVE_BACK',
): void {
  if (ctx.has('quota', ctx.aggregateId)) ctx.send('quota', ctx.aggregateId, { type, callId })
}

/**
 * Counts the bytes of a stored free response. Returns the reason when it is too large or the daily
 * volume is used up. Runs in the commit of the call, so that nodes cannot exceed the limit
 * together.
 */
export function countStoredReplyAgainstDailyByteLimit(
  ctx: CommandContext,
  bytes: number,
): UnstoredResponseReason | null {
  if (bytes > LIMITS.storedResponseMaxBytes) return 'too_large'
  if (bytes <= LIMITS.uncountedResponseBytes) return null
  const agentId = ctx.aggregateId
  if (!ctx.has('quota', agentId)) ctx.create('quota', agentId, { agentId })
  const max = LIMITS.storedResponseBytesPerDay
  const { day, kept } = ctx.snapshotOf('quota', agentId).context
  if (utcDay(ctx.now) <= day && kept + bytes > max) return 'daily_bytes'
  ctx.send('quota', agentId, { type: 'STORE', bytes, most: max, at: ctx.now })
  return null
}

function sendToQuota(ctx: CommandContext, event: ActorMachineEvent<'quota'>, max: number): void {
  const agentId = ctx.aggregateId
  if (!ctx.has('quota', agentId)) ctx.create('quota', agentId, { agentId })
  try {
    ctx.send('quota', agentId, event)
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'quota_exceeded')
      Object.assign(error.details, {
        limit_source: 'quota',
        limit_calls: max,
        detail: `Each agent has ${max} calls of this tool a day. The quota resets at midnight UTC.`,
        retry_after: Math.ceil(msUntilNextUtcDay(ctx.now) / 1000),
      })
    throw error
  }
}
