import { utcDay, utcMonth } from '../../core/clock.ts'
import {
  addMicros,
  smallerOfTwoMicros,
  subtractMicros,
  ZERO_MICROS,
  type Micros,
} from '../../core/money.ts'

/** Spend windows of a UTC day and month, and the limits on them. */

export type FuseLimitKind = 'per_call' | 'per_day' | 'per_month'

/** Spend limits; null means no limit. */
export interface Fuse {
  readonly perCall: Micros | null
  readonly perDay: Micros | null
  readonly perMonth: Micros | null
}

/** Amounts spent and held in the current UTC day and month. */
export interface SpendWindows {
  readonly day: string
  readonly spentDay: Micros
  readonly heldDay: Micros
  readonly month: string
  readonly spentMonth: Micros
  readonly heldMonth: Micros
}

/** Empty windows that start at a point in time. */
export const newSpendWindows = (at: number): SpendWindows => ({
  day: utcDay(at),
  spentDay: ZERO_MICROS,
  heldDay: ZERO_MICROS,
  month: utcMonth(at),
  spentMonth: ZERO_MICROS,
  heldMonth: ZERO_MICROS,
})

/** The windows at a point in time. A new window starts empty; an older one never reopens. */
export function spendWindowsAt(context: SpendWindows, at: number): SpendWindows {
  const [day, month] = [utcDay(at), utcMonth(at)]
  const daily =
    day > context.day
      ? { day, spentDay: ZERO_MICROS, heldDay: ZERO_MICROS }
      : { day: context.day, spentDay: context.spentDay, heldDay: context.heldDay }
  const monthly =
    month > context.month
      ? { month, spentMonth: ZERO_MICROS, heldMonth: ZERO_MICROS }
      : { month: context.month, spentMonth: context.spentMonth, heldMonth: context.heldMonth }
  return { ...daily, ...monthly }
}

/** Whether a call admitted at `heldAt` counts in these windows. Calls of past windows do not. */
const windowsCounting = ({ day, month }: SpendWindows, heldAt: number) => ({
  inDay: utcDay(heldAt) >= day,
  inMonth: utcMonth(heldAt) >= month,
})

interface FusedWindows extends SpendWindows {
  readonly fuse: Fuse
}

/** A call to admit, with the in-memory holds of others. */
interface SpendAdmission {
  readonly type: 'ASK' | 'HOLD' | 'SPEND'
  readonly amount: Micros
  readonly reservedDay: Micros
  readonly reservedMonth: Micros
  readonly at: number
}

/** The cost of a call that was held in memory since `heldAt`. */
interface SpendCharge {
  readonly type: 'CHARGE'
  readonly amount: Micros
  readonly heldAt: number
  readonly at: number
}

type SpendAttempt = SpendAdmission | SpendCharge

interface FuseLimitReading {
  readonly limit: FuseLimitKind
  readonly window: string
  readonly limitAmount: Micros | null
  readonly spent: Micros
}

function windowUsage(windows: SpendWindows, event: SpendAttempt) {
  const { spentDay, heldDay, spentMonth, heldMonth } = windows
  const [day, month] = [addMicros(spentDay, heldDay), addMicros(spentMonth, heldMonth)]
  if (event.type === 'CHARGE') return { day, month, ...windowsCounting(windows, event.heldAt) }
  const { reservedDay, reservedMonth } = event
  return {
    day: addMicros(day, reservedDay),
    month: addMicros(month, reservedMonth),
    inDay: true,
    inMonth: true,
  }
}

/** The limits that apply to an amount, in the order of rejection. */
function fuseLimitReadings(context: FusedWindows, event: SpendAttempt): FuseLimitReading[] {
  const { perCall, perDay, perMonth } = context.fuse
  const windows = spendWindowsAt(context, event.at)
  const { day, month, inDay, inMonth } = windowUsage(windows, event)
  return [
    { limit: 'per_call', window: windows.day, limitAmount: perCall, spent: ZERO_MICROS },
    { limit: 'per_day', window: windows.day, limitAmount: inDay ? perDay : null, spent: day },
    {
      limit: 'per_month',
      window: windows.month,
      limitAmount: inMonth ? perMonth : null,
      spent: month,
    },
  ]
}

/** The first limit that an amount would exceed, if any. Free calls exceed none. */
export function findTrippedFuseLimit(
  context: FusedWindows,
  event: SpendAttempt,
): FuseLimitReading | undefined {
  if (event.amount === ZERO_MICROS) return undefined
  return fuseLimitReadings(context, event).find(
    ({ limitAmount, spent }) => limitAmount !== null && spent + event.amount > limitAmount,
  )
}

/** Holds of a past window are not in `held`, so the result never goes below zero. */
const subtractHeld = (held: Micros, amount: Micros): Micros =>
  subtractMicros(held, smallerOfTwoMicros(held, amount))

/** Settles a call: removes its hold from the windows that count it and adds its cost. */
export function settleSpendWindows(
  context: SpendWindows,
  event: { heldAt: number; at: number },
  held: Micros,
  cost: Micros,
) {
  const windows = spendWindowsAt(context, event.at)
  const { inDay, inMonth } = windowsCounting(windows, event.heldAt)
  return {
    ...windows,
    ...(inDay && {
      heldDay: subtractHeld(windows.heldDay, held),
      spentDay: addMicros(windows.spentDay, cost),
    }),
    ...(inMonth && {
      heldMonth: subtractHeld(windows.heldMonth, held),
      spentMonth: addMicros(windows.spentMonth, cost),
    }),
  }
}
