import { ServiceError, type ErrorDetails, type ErrorCode } from '../../core/errors.ts'
import { addMicros, subtractMicros, toUsdc, ZERO_MICROS } from '../../core/money.ts'
import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import { agentFrozenDetails } from '../../actors/commands/agent-freeze-commands.ts'
import type { FuseLimitKind, ApiKeyCapPeriod } from '../../actors/commands/spend-limit-usage.ts'
import { CommandRejectedError } from '../../actors/command-context.ts'
import type {
  CallAdmissionRequest,
  CreditsHeldByOtherCalls,
} from '../agent-call-admission-request-types.ts'
import {
  keyCapExceededDetails,
  fuseTrippedDetails,
  taskBudgetExceededDetails,
} from './spend-limit-error-details.ts'

/**
 * Adds details to a rejection: which limit, its size, the used part and the needed amount. The
 * machine decides the reason.
 */
export function explainSpendLimitRejection(
  error: unknown,
  ctx: CommandContext,
  asked: CallAdmissionRequest,
  reserved: CreditsHeldByOtherCalls,
): unknown {
  if (!(error instanceof CommandRejectedError)) return error
  if (isPaymentHeldByOtherCall(ctx, asked)) return paymentInProgressError(asked)
  const details = rejectionDetails(error, ctx, asked, reserved)
  const isBound = (asked.key?.backpackId ?? null) !== null
  const remedy =
    isBound && OWNER_ONLY_LIMIT_CODES.has(error.code) ? { remedy: { action: 'ask_owner' } } : {}
  Object.assign(error.details, details, remedy)
  if (error.details['limit'] === 'per_day' && error.emittedEffects !== null)
    emitDailyLimitHit(error, ctx, asked)
  return error
}

/** Limits that a bound key cannot change: only its owner's key can. */
const OWNER_ONLY_LIMIT_CODES: ReadonlySet<ErrorCode> = new Set([
  'FUSE_TRIPPED',
  'EXPIRED',
  'TOOL_NOT_ALLOWED',
  'key_cap_exceeded',
])

/** The conflicting hold is for the same payment: the first request still runs. */
function isPaymentHeldByOtherCall(
  ctx: CommandContext,
  { callId, payment }: CallAdmissionRequest,
): boolean {
  if (payment === null) return false
  const { holds } = ctx.snapshotOf('agent', ctx.aggregateId).context
  return Object.entries(holds).some(
    ([id, hold]) => id !== callId && hold.payment?.settlement === payment.settlement,
  )
}

const paymentInProgressError = ({ payment }: CallAdmissionRequest): ServiceError =>
  new ServiceError('payment_in_progress', {
    settlement_id: payment?.settlement,
    retry_after: 1,
  })

/** Pagers have separate events for the daily limit and the fuse. */
function emitDailyLimitHit(
  { emittedEffects, details }: CommandRejectedError,
  ctx: CommandContext,
  asked: CallAdmissionRequest,
): void {
  emittedEffects?.events.push({
    type: 'daily_limit_hit',
    to: ctx.aggregateId,
    backpackId: asked.backpackId,
    data: {
      backpack_id: asked.backpackId,
      tool: asked.tool,
      limit_usdc: details['limit_usdc'],
      spent_usdc: details['spent_usdc'],
    },
    at: ctx.now,
  })
}

function rejectionDetails(
  error: CommandRejectedError,
  ctx: CommandContext,
  asked: CallAdmissionRequest,
  reserved: CreditsHeldByOtherCalls,
): ErrorDetails {
  const needed_usdc = toUsdc(asked.amount)
  switch (error.code) {
    case 'promo_not_transferable':
    case 'cash_required':
    case 'payment_required': {
      const { promo, cash, fleetId } = ctx.snapshotOf('agent', ctx.aggregateId).context
      const available = subtractMicros(addMicros(promo, cash), reserved.agent)
      return {
        limit_source: 'balance',
        balance_usdc: toUsdc(available < ZERO_MICROS ? ZERO_MICROS : available),
        ...(asked.from === 'cash' ? { cash_usdc: toUsdc(cash), promo_usdc: toUsdc(promo) } : {}),
        needed_usdc,
        agent_id: ctx.aggregateId,
        ...(fleetId === null ? {} : { fleet_id: fleetId }),
      }
    }
    case 'key_cap_exceeded':
      return keyCapExceededDetails(ctx, error.details['limit'] as ApiKeyCapPeriod, asked, reserved)
    case 'task_budget_exceeded':
      return taskBudgetExceededDetails(ctx, asked, reserved)
    case 'agent_frozen':
      return agentFrozenDetails(
        ctx.aggregateId,
        ctx.snapshotOf('agent', ctx.aggregateId).context.frozen?.at ?? ctx.now,
      )
    case 'task_not_active':
      return { task_id: asked.taskId }
    case 'TOOL_NOT_ALLOWED': {
      const { tools } = ctx.snapshotOf('backpack', asked.backpackId ?? '').context
      return { backpack_id: asked.backpackId, tool: asked.tool, allowed_tools: tools }
    }
    case 'FUSE_TRIPPED':
      return fuseTrippedDetails(ctx, error.details['limit'] as FuseLimitKind, asked, reserved)
    default:
      return asked.backpackId === null ? {} : { backpack_id: asked.backpackId }
  }
}
