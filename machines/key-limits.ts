import { utcDay, utcMonth } from '../core/clock.ts'
import { add, sum, ZERO, type Micros } from '../core/money.ts'
import { openWindows, settle, trippedBy, windowsAt, type SpendWindows } from './fuse.ts'

/** A cap of a key: on all it ever spends, or on a UTC day or month. */
export type KeyLimit = 'total' | 'per_day' | 'per_month'

/** The key that spends and its caps. Without a key, or without caps, nothing is bounded or counted. */
export interface KeyLimits {
  /** The id under which its spending is counted; a rotation hands it on to the new key. */
  readonly keyId: string | null
  readonly keyCap: Micros | null
  readonly keyCapPerDay?: Micros | null
  readonly keyCapPerMonth?: Micros | null
}

/** What other calls of the key hold in memory. */
export interface KeyReserved {
  readonly keyReserved: Micros
  readonly keyReservedDay?: Micros
  readonly keyReservedMonth?: Micros
}

/** What is counted of the keys that have a cap. */
export interface KeyCounters {
  /** What each key has spent in all. */
  readonly keySpent: Readonly<Record<string, Micros>>
  /** What each key has spent in its present UTC day and month; its holds are those of the purse. */
  readonly keyWindows: Readonly<Record<string, SpendWindows>>
}

/** A durable hold as far as a key's caps count it. */
interface KeyHold {
  readonly keyId: string | null
  readonly worth: Micros
  readonly at: number
}

/** An amount that is to be spent with a key. */
export interface KeySpend extends KeyLimits, Partial<KeyReserved> {
  readonly amount: Micros
  readonly at: number
  /** When the call was admitted, where that was before; the windows of that instant count it. */
  readonly heldAt?: number
}

export const isCapped = ({
  keyId,
  keyCap,
  keyCapPerDay = null,
  keyCapPerMonth = null,
}: KeyLimits): boolean =>
  keyId !== null && (keyCap !== null || keyCapPerDay !== null || keyCapPerMonth !== null)

/** The windows of a key as they stand at an instant, with what its durable holds keep in them. */
export function keyWindowsAt(
  { keyWindows }: KeyCounters,
  holds: readonly KeyHold[],
  keyId: string,
  at: number,
): SpendWindows {
  const windows = windowsAt(keyWindows[keyId] ?? openWindows(at), at)
  const own = holds.filter((hold) => hold.keyId === keyId)
  const heldIn = (counts: (hold: KeyHold) => boolean) =>
    sum(own.filter(counts).map(({ worth }) => worth))
  return {
    ...windows,
    heldDay: heldIn((hold) => utcDay(hold.at) >= windows.day),
    heldMonth: heldIn((hold) => utcMonth(hold.at) >= windows.month),
  }
}

/** The first cap of its key that an amount would exceed, if any; a free call exceeds none. */
export function keyCapTripped(
  counters: KeyCounters,
  holds: readonly KeyHold[],
  spend: KeySpend,
): KeyLimit | undefined {
  const { keyId, keyCap, amount, at, heldAt } = spend
  if (amount === ZERO || keyId === null || !isCapped(spend)) return undefined
  const own = holds.filter((hold) => hold.keyId === keyId).map(({ worth }) => worth)
  const gone = sum([counters.keySpent[keyId] ?? ZERO, ...own, spend.keyReserved ?? ZERO])
  if (keyCap !== null && gone + amount > keyCap) return 'total'
  const fuse = {
    perCall: null,
    perDay: spend.keyCapPerDay ?? null,
    perMonth: spend.keyCapPerMonth ?? null,
  }
  const metered = { ...keyWindowsAt(counters, holds, keyId, at), fuse }
  const reserved = {
    reservedDay: spend.keyReservedDay ?? ZERO,
    reservedMonth: spend.keyReservedMonth ?? ZERO,
  }
  const asked =
    heldAt === undefined
      ? ({ type: 'ASK', amount, at, ...reserved } as const)
      : ({ type: 'CHARGE', amount, at, heldAt } as const)
  return trippedBy(metered, asked)?.limit as 'per_day' | 'per_month' | undefined
}

/** What a key with a cap has spent after an amount more. */
export function keySpending(
  { keySpent, keyWindows }: KeyCounters,
  { keyId, capped }: { readonly keyId: string | null; readonly capped: boolean },
  { amount, heldAt, at }: { amount: Micros; heldAt: number; at: number },
): KeyCounters {
  if (keyId === null || !capped) return { keySpent, keyWindows }
  const windows = keyWindows[keyId] ?? openWindows(heldAt)
  return {
    keySpent: { ...keySpent, [keyId]: add(keySpent[keyId] ?? ZERO, amount) },
    keyWindows: { ...keyWindows, [keyId]: settle(windows, { heldAt, at }, ZERO, amount) },
  }
}
