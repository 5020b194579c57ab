import { untilNextDay, untilNextMonth } from '../../core/clock.ts'
import { add, ZERO, type Micros } from '../../core/money.ts'
import { windowsAt, type FuseLimit, type SpendWindows } from '../../machines/fuse.ts'
import { keyWindowsAt, type KeyLimit } from '../../machines/key-limits.ts'
import { keyHolds, worth } from '../../machines/purse.ts'
import type { Turn } from '../command.ts'

export type { FuseLimit, KeyLimit }

/** How a limit stands at the instant of a command. */
export interface Meter {
  /** Spent in its window. */
  readonly spent: Micros
  /** Held in its window by calls under way, in the ledger; what is held in memory is not in it. */
  readonly held: Micros
  /** When its window ends, in milliseconds; null where it has none. */
  readonly endsAt: number | null
}

/** A limit of a Backpack. A limit on each call has no window: it shows what the day has seen. */
export function fuseMeter(turn: Turn, backpackId: string, limit: FuseLimit): Meter {
  const windows = windowsAt(turn.peek('backpack', backpackId).context, turn.now)
  return meterOf(windows, limit, turn.now)
}

/** A cap of a key, by the id its spending is counted under. */
export function keyMeter(turn: Turn, keyId: string, limit: KeyLimit): Meter {
  const { context } = turn.peek('agent', turn.aggregateId)
  if (limit !== 'total')
    return meterOf(keyWindowsAt(context, keyHolds(context), keyId, turn.now), limit, turn.now)
  const own = Object.values(context.holds).filter((hold) => hold.keyId === keyId)
  const held = own.map(worth).reduce(add, ZERO)
  return { spent: context.keySpent[keyId] ?? ZERO, held, endsAt: null }
}

function meterOf(windows: SpendWindows, limit: FuseLimit, now: number): Meter {
  const { spentDay, heldDay, spentMonth, heldMonth } = windows
  if (limit === 'per_month')
    return { spent: spentMonth, held: heldMonth, endsAt: now + untilNextMonth(now) }
  const endsAt = limit === 'per_day' ? now + untilNextDay(now) : null
  return { spent: spentDay, held: heldDay, endsAt }
}
