import { ServiceError, type Details, type ErrorCode } from '../core/errors.ts'
import { add, subtract, toUsdc, ZERO } from '../core/money.ts'
import type { Turn } from '../actors/command.ts'
import type { FuseLimit, KeyLimit } from '../actors/commands/meters.ts'
import { Refusal } from '../actors/turn.ts'
import type { Admission, Reserved } from './admission.ts'
import { capDetails, fuseDetails, taskDetails } from './limit-details.ts'

/**
 * Adds to a refusal what an agent needs to act: which limit, how high it is, how much of it is gone
 * and how much the call needed. The reason itself is the chart's.
 */
export function explain(error: unknown, turn: Turn, asked: Admission, reserved: Reserved): unknown {
  if (!(error instanceof Refusal)) return error
  if (isTwin(turn, asked)) return beingUsed(asked)
  const details = detailsOf(error, turn, asked, reserved)
  const isBound = (asked.key?.backpackId ?? null) !== null
  const remedy = isBound && OF_OWNER.has(error.code) ? { remedy: { action: 'ask_owner' } } : {}
  Object.assign(error.details, details, remedy)
  if (error.details['limit'] === 'per_day' && error.facts !== null)
    tellDailyLimit(error, turn, asked)
  return error
}

/** Limits that a bound key cannot change: only the key of its owner can. */
const OF_OWNER: ReadonlySet<ErrorCode> = new Set([
  'FUSE_TRIPPED',
  'EXPIRED',
  'TOOL_NOT_ALLOWED',
  'key_cap_exceeded',
])

/** What stands in its way is held for the same payment: the request that was sent first still runs. */
function isTwin(turn: Turn, { callId, payment }: Admission): boolean {
  if (payment === null) return false
  const { holds } = turn.peek('agent', turn.aggregateId).context
  return Object.entries(holds).some(
    ([id, hold]) => id !== callId && hold.payment?.settlement === payment.settlement,
  )
}

const beingUsed = ({ payment }: Admission): ServiceError =>
  new ServiceError('payment_in_progress', {
    settlement_id: payment?.settlement,
    retry_after: 1,
  })

/** The pager has an event of its own for the day's limit, beside the fuse's. */
function tellDailyLimit({ facts, details }: Refusal, turn: Turn, asked: Admission): void {
  facts?.events.push({
    type: 'daily_limit_hit',
    to: turn.aggregateId,
    backpackId: asked.backpackId,
    data: {
      backpack_id: asked.backpackId,
      tool: asked.tool,
      limit_usdc: details['limit_usdc'],
      spent_usdc: details['spent_usdc'],
    },
    at: turn.now,
  })
}

function detailsOf(error: Refusal, turn: Turn, asked: Admission, reserved: Reserved): Details {
  const needed_usdc = toUsdc(asked.amount)
  switch (error.code) {
    case 'promo_not_transferable':
    case 'payment_required': {
      const { promo, cash, fleetId } = turn.peek('agent', turn.aggregateId).context
      const available = subtract(add(promo, cash), reserved.agent)
      return {
        limit_source: 'balance',
        balance_usdc: toUsdc(available < ZERO ? ZERO : available),
        needed_usdc,
        agent_id: turn.aggregateId,
        ...(fleetId === null ? {} : { fleet_id: fleetId }),
      }
    }
    case 'key_cap_exceeded':
      return capDetails(turn, error.details['limit'] as KeyLimit, asked, reserved)
    case 'task_budget_exceeded':
      return taskDetails(turn, asked, reserved)
    case 'task_not_active':
      return { task_id: asked.taskId }
    case 'TOOL_NOT_ALLOWED': {
      const { tools } = turn.peek('backpack', asked.backpackId ?? '').context
      return { backpack_id: asked.backpackId, tool: asked.tool, allowed_tools: tools }
    }
    case 'FUSE_TRIPPED':
      return fuseDetails(turn, error.details['limit'] as FuseLimit, asked, reserved)
    default:
      return asked.backpackId === null ? {} : { backpack_id: asked.backpackId }
  }
}
