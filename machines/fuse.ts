import { utcDay, utcMonth } from '../core/clock.ts'
import { add, least, subtract, ZERO, type Micros } from '../core/money.ts'

export type FuseLimit = 'per_call' | 'per_day' | 'per_month'

/** What may be spent at most; null = no limit. */
export interface Fuse {
  readonly perCall: Micros | null
  readonly perDay: Micros | null
  readonly perMonth: Micros | null
}

/** Spending of the current UTC day and month, beside what calls admitted in them still hold. */
export interface SpendWindows {
  readonly day: string
  readonly spentDay: Micros
  readonly heldDay: Micros
  readonly month: string
  readonly spentMonth: Micros
  readonly heldMonth: Micros
}

/** Windows that begin at an instant, with nothing spent. */
export const openWindows = (at: number): SpendWindows => ({
  day: utcDay(at),
  spentDay: ZERO,
  heldDay: ZERO,
  month: utcMonth(at),
  spentMonth: ZERO,
  heldMonth: ZERO,
})

/** The windows as they stand at an instant: a new one starts empty, an older one never opens again. */
export function windowsAt(context: SpendWindows, at: number): SpendWindows {
  const [day, month] = [utcDay(at), utcMonth(at)]
  const daily =
    day > context.day
      ? { day, spentDay: ZERO, heldDay: ZERO }
      : { day: context.day, spentDay: context.spentDay, heldDay: context.heldDay }
  const monthly =
    month > context.month
      ? { month, spentMonth: ZERO, heldMonth: ZERO }
      : { month: context.month, spentMonth: context.spentMonth, heldMonth: context.heldMonth }
  return { ...daily, ...monthly }
}

/** Whether a call admitted at `heldAt` counts in these windows; one from the past does not. */
const countsIn = ({ day, month }: SpendWindows, heldAt: number) => ({
  inDay: utcDay(heldAt) >= day,
  inMonth: utcMonth(heldAt) >= month,
})

interface Metered extends SpendWindows {
  readonly fuse: Fuse
}

/** A call to be admitted, beside what others hold in memory. */
interface Admission {
  readonly type: 'ASK' | 'HOLD'
  readonly amount: Micros
  readonly reservedDay: Micros
  readonly reservedMonth: Micros
  readonly at: number
}

/** The cost of a call that was admitted at `heldAt` and held in memory since. */
interface Charge {
  readonly type: 'CHARGE'
  readonly amount: Micros
  readonly heldAt: number
  readonly at: number
}

type Spend = Admission | Charge

interface Meter {
  readonly limit: FuseLimit
  readonly window: string
  readonly limitAmount: Micros | null
  readonly spent: Micros
}

function usage(windows: SpendWindows, event: Spend) {
  const { spentDay, heldDay, spentMonth, heldMonth } = windows
  const [day, month] = [add(spentDay, heldDay), add(spentMonth, heldMonth)]
  if (event.type === 'CHARGE') return { day, month, ...countsIn(windows, event.heldAt) }
  const { reservedDay, reservedMonth } = event
  return {
    day: add(day, reservedDay),
    month: add(month, reservedMonth),
    inDay: true,
    inMonth: true,
  }
}

/** The limits an amount is measured by, in the order they refuse. */
function meters(context: Metered, event: Spend): Meter[] {
  const { perCall, perDay, perMonth } = context.fuse
  const windows = windowsAt(context, event.at)
  const { day, month, inDay, inMonth } = usage(windows, event)
  return [
    { limit: 'per_call', window: windows.day, limitAmount: perCall, spent: ZERO },
    { limit: 'per_day', window: windows.day, limitAmount: inDay ? perDay : null, spent: day },
    {
      limit: 'per_month',
      window: windows.month,
      limitAmount: inMonth ? perMonth : null,
      spent: month,
    },
  ]
}

/** The first limit an amount would exceed, if any; a free call exceeds none. */
export function trippedBy(context: Metered, event: Spend): Meter | undefined {
  if (event.amount === ZERO) return undefined
  return meters(context, event).find(
    ({ limitAmount, spent }) => limitAmount !== null && spent + event.amount > limitAmount,
  )
}

/** Capturing or releasing more than a window holds empties it: the rest was rolled away. */
const drop = (held: Micros, amount: Micros): Micros => subtract(held, least(held, amount))

/** Ends a call: takes its hold out of the windows it counts in and adds what it cost. */
export function settle(
  context: SpendWindows,
  event: { heldAt: number; at: number },
  held: Micros,
  cost: Micros,
) {
  const windows = windowsAt(context, event.at)
  const { inDay, inMonth } = countsIn(windows, event.heldAt)
  return {
    ...windows,
    ...(inDay && { heldDay: drop(windows.heldDay, held), spentDay: add(windows.spentDay, cost) }),
    ...(inMonth && {
      heldMonth: drop(windows.heldMonth, held),
      spentMonth: add(windows.spentMonth, cost),
    }),
  }
}
