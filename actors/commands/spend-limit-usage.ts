import { msUntilNextUtcDay, msUntilNextUtcMonth } from '../../core/clock.ts'
import { addMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import {
  spendWindowsAt,
  type FuseLimitKind,
  type SpendWindows,
} from '../../machines/backpack/fuse-limits.ts'
import { keySpendWindowsAt, type ApiKeyCapPeriod } from '../../machines/agent/api-key-spend-caps.ts'
import {
  agentHoldsForKeyCaps,
  agentBalanceWithoutFleetLoans,
  toAgentBalanceTier,
  holdTotalFromAllSources,
  type AgentBalanceTier,
} from '../../machines/agent/agent-balance.ts'
import type { CommandContext } from '../aggregate-command-types.ts'

/** Reads how much of a spend limit is used, for Backpacks and API keys. */

export type { AgentBalanceTier, FuseLimitKind, ApiKeyCapPeriod }

/** Usage of a spend limit at the time of a command. */
export interface SpendLimitUsage {
  /** Amount spent in the window. */
  readonly spent: Micros
  /** Amount held in the ledger by running calls, without in-memory holds. */
  readonly held: Micros
  /** End of the window in milliseconds; null without a window. */
  readonly endsAt: number | null
}

/** Usage of a Backpack limit. A per-call limit has no window; it shows the usage of the day. */
export function fuseLimitUsage(
  ctx: CommandContext,
  backpackId: string,
  limit: FuseLimitKind,
): SpendLimitUsage {
  const windows = spendWindowsAt(ctx.snapshotOf('backpack', backpackId).context, ctx.now)
  return windowLimitUsage(windows, limit, ctx.now)
}

/** Usage of a key limit. `keyId` is the id that the spending is counted under. */
export function toApiKeySpendLimitUsage(
  ctx: CommandContext,
  keyId: string,
  limit: ApiKeyCapPeriod,
): SpendLimitUsage {
  const { context } = ctx.snapshotOf('agent', ctx.aggregateId)
  if (limit !== 'total')
    return windowLimitUsage(
      keySpendWindowsAt(context, agentHoldsForKeyCaps(context), keyId, ctx.now),
      limit,
      ctx.now,
    )
  const own = Object.values(context.holds).filter((hold) => hold.keyId === keyId)
  const held = own.map(holdTotalFromAllSources).reduce(addMicros, ZERO_MICROS)
  return { spent: context.keySpent[keyId] ?? ZERO_MICROS, held, endsAt: null }
}

function windowLimitUsage(
  windows: SpendWindows,
  limit: FuseLimitKind,
  now: number,
): SpendLimitUsage {
  const { spentDay, heldDay, spentMonth, heldMonth } = windows
  if (limit === 'per_month')
    return { spent: spentMonth, held: heldMonth, endsAt: now + msUntilNextUtcMonth(now) }
  const endsAt = limit === 'per_day' ? now + msUntilNextUtcDay(now) : null
  return { spent: spentDay, held: heldDay, endsAt }
}

/** The alert level of the agent's own balance; its state names it too, but for a frozen agent. */
export const getAgentBalanceAlertLevel = (ctx: CommandContext): AgentBalanceTier =>
  toAgentBalanceTier(
    agentBalanceWithoutFleetLoans(ctx.snapshotOf('agent', ctx.aggregateId).context),
  )
