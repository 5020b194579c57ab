import type { ErrorDetails } from '../../core/errors.ts'
import { spendingCountIdOfApiKey } from '../../domain/api-key-spending-limits.ts'
import { addMicros, toUsdc, type Micros } from '../../core/money.ts'
import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import {
  fuseLimitUsage,
  toApiKeySpendLimitUsage,
  type FuseLimitKind,
  type ApiKeyCapPeriod,
  type SpendLimitUsage,
} from '../../actors/commands/spend-limit-usage.ts'
import type {
  CallAdmissionRequest,
  CreditsHeldByOtherCalls,
} from '../agent-call-admission-request-types.ts'

/** Error details of reached spending limits. */

/** A limit that rejected an amount, its usage and its reset time. */
interface ReachedLimit extends SpendLimitUsage {
  readonly limit: Micros | null
  readonly needed: Micros
}

/** Details of a tripped fuse: its limit, its usage, the needed amount and the reset time. */
export function fuseTrippedDetails(
  ctx: CommandContext,
  limit: FuseLimitKind,
  { amount, backpackId }: CallAdmissionRequest,
  reserved: CreditsHeldByOtherCalls,
): ErrorDetails {
  const id = backpackId ?? ''
  const { fuse } = ctx.snapshotOf('backpack', id).context
  const max = { per_call: fuse.perCall, per_day: fuse.perDay, per_month: fuse.perMonth }[limit]
  const inMemory = limit === 'per_month' ? reserved.month : reserved.day
  const reached = toReachedLimit(fuseLimitUsage(ctx, id, limit), inMemory, max, amount)
  const detail =
    limit === 'per_call'
      ? `This costs ${formatUsdc(amount)} and one call may cost ${formatUsdc(max)} USDC at most in this Backpack. Nothing was charged.`
      : limitSentence(limit, reached, 'in this Backpack')
  return { backpack_id: id, ...limitFigures(`backpack.${limit}`, reached, ctx.now), detail }
}

/** Details of an exceeded key cap. */
export function keyCapExceededDetails(
  ctx: CommandContext,
  limit: ApiKeyCapPeriod,
  { amount, key }: CallAdmissionRequest,
  reserved: CreditsHeldByOtherCalls,
): ErrorDetails {
  const max = {
    total: key?.cap ?? null,
    per_day: key?.capPerDay ?? null,
    per_month: key?.capPerMonth ?? null,
  }[limit]
  const inMemory = { total: reserved.key, per_day: reserved.keyDay, per_month: reserved.keyMonth }
  const meter = toApiKeySpendLimitUsage(
    ctx,
    key === null ? '' : spendingCountIdOfApiKey(key),
    limit,
  )
  const reached = toReachedLimit(meter, inMemory[limit], max, amount)
  return {
    ...limitFigures('key', reached, ctx.now),
    detail: limitSentence(limit, reached, 'with this key'),
  }
}

/** Details of a task budget that is too small for a call. */
export function taskBudgetExceededDetails(
  ctx: CommandContext,
  { amount, taskId }: CallAdmissionRequest,
  reserved: CreditsHeldByOtherCalls,
): ErrorDetails {
  const { budget, spent, held: durable } = ctx.snapshotOf('taskSession', taskId ?? '').context
  const held = addMicros(durable, reserved.task)
  const running = held === 0n ? '' : ` and ${formatUsdc(held)} is held by running calls`
  return {
    task_id: taskId,
    limit_source: 'task',
    limit_usdc: toUsdc(budget),
    spent_usdc: toUsdc(spent),
    held_usdc: toUsdc(held),
    needed_usdc: toUsdc(amount),
    detail: `${formatUsdc(spent)} of ${formatUsdc(budget)} USDC is spent in this task${running}, and this costs ${formatUsdc(amount)}. Nothing was charged.`,
  }
}

const toReachedLimit = (
  { spent, held, endsAt }: SpendLimitUsage,
  inMemory: Micros,
  limit: Micros | null,
  needed: Micros,
): ReachedLimit => ({ spent, held: addMicros(held, inMemory), endsAt, limit, needed })

/** `spent_usdc` includes what running calls hold. */
function limitFigures(
  source: string,
  { limit, spent, held, needed, endsAt }: ReachedLimit,
  now: number,
) {
  return {
    limit_source: source,
    limit_usdc: limit === null ? 0 : toUsdc(limit),
    spent_usdc: toUsdc(addMicros(spent, held)),
    held_usdc: toUsdc(held),
    needed_usdc: toUsdc(needed),
    // Without a window, or if the price exceeds the whole limit, waiting does not help.
    ...(endsAt === null || limit === null || needed > limit
      ? {}
      : {
          resets_at: new Date(endsAt).toISOString(),
          retry_after: Math.ceil((endsAt - now) / 1000),
        }),
  }
}

const SPAN_WORDS = { total: 'in all', per_day: 'today', per_month: 'this month' } as const

function limitSentence(
  span: keyof typeof SPAN_WORDS,
  reached: ReachedLimit,
  where: string,
): string {
  const { limit, spent, held, needed, endsAt } = reached
  const gone = `${formatUsdc(addMicros(spent, held))} of ${formatUsdc(limit)} USDC is spent ${SPAN_WORDS[span]} ${where}`
  const running = held === 0n ? '' : ` (${formatUsdc(held)} of it is held by running calls)`
  const isTooDear = limit !== null && needed > limit
  const ends = endsAt === null || isTooDear ? '' : `; the window ends at ${formatUtcTime(endsAt)}`
  return `${gone}${running}, and this costs ${formatUsdc(needed)}${ends}. Nothing was charged.`
}

const formatUsdc = (amount: Micros | null): string => String(amount === null ? 0 : toUsdc(amount))
const formatUtcTime = (at: number): string =>
  new Date(at).toISOString().slice(0, 16).replace('T', ' ') + ' UTC'
