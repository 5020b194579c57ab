import { msUntilNextUtcDay, msUntilNextUtcMonth } from '../../core/clock.ts'
import { addMicros, ZERO, type Micros } from '../../core/money.ts'
import {
  spendWindowsAt,
  type FuseLimit,
  type SpendWindows,
} from '../../machines/backpack/fuse-limits.ts'
import { keySpendWindowsAt, type KeyLimit } from '../../machines/agent/key-limits.ts'
import { agentKeyHolds, agentHoldTotal } from '../../machines/agent/agent-balance.ts'
import type { CommandContext } from '../command.ts'

export type { FuseLimit, KeyLimit }

/** How a limit stands at the instant of a command. */
export interface SpendLimitUsage {
  /** Spent in its window. */
  readonly spent: Micros
  /** Held in its window by calls under way, in the ledger; what is held in memory is not in it. */
  readonly held: Micros
  /** When its window ends, in milliseconds; null where it has none. */
  readonly endsAt: number | null
}

/** A limit of a Backpack. A limit on each call has no window: it shows what the day has seen. */
export function fuseLimitUsage(
  ctx: CommandContext,
  backpackId: string,
  limit: FuseLimit,
): SpendLimitUsage {
  const windows = spendWindowsAt(ctx.snapshotOf('backpack', backpackId).context, ctx.now)
  return windowLimitUsage(windows, limit, ctx.now)
}

/** A cap of a key, by the id its spending is counted under. */
export function keyLimitUsage(
  ctx: CommandContext,
  keyId: string,
  limit: KeyLimit,
): SpendLimitUsage {
  const { context } = ctx.snapshotOf('agent', ctx.aggregateId)
  if (limit !== 'total')
    return windowLimitUsage(
      keySpendWindowsAt(context, agentKeyHolds(context), keyId, ctx.now),
      limit,
      ctx.now,
    )
  const own = Object.values(context.holds).filter((hold) => hold.keyId === keyId)
  const held = own.map(agentHoldTotal).reduce(addMicros, ZERO)
  return { spent: context.keySpent[keyId] ?? ZERO, held, endsAt: null }
}

function windowLimitUsage(windows: SpendWindows, limit: FuseLimit, now: number): SpendLimitUsage {
  const { spentDay, heldDay, spentMonth, heldMonth } = windows
  if (limit === 'per_month')
    return { spent: spentMonth, held: heldMonth, endsAt: now + msUntilNextUtcMonth(now) }
  const endsAt = limit === 'per_day' ? now + msUntilNextUtcDay(now) : null
  return { spent: spentDay, held: heldDay, endsAt }
}
