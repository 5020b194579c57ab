import { utcDay, utcMonth } from '../../core/clock.ts'
import { addMicros, sumMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import {
  newSpendWindows,
  settleSpendWindows,
  findTrippedFuseLimit,
  spendWindowsAt,
  type SpendWindows,
} from '../backpack/fuse-limits.ts'

/** A spend cap of an API key: in total, per UTC day or per UTC month. */
export type ApiKeyCapPeriod = 'total' | 'per_day' | 'per_month'

/** The spending key and its caps. Without a key or caps nothing is limited or counted. */
export interface ApiKeySpendCaps {
  /** The id that spending is counted under. A rotation passes it on to the new key. */
  readonly keyId: string | null
  readonly keyCap: Micros | null
  readonly keyCapPerDay?: Micros | null
  readonly keyCapPerMonth?: Micros | null
}

/** Amounts that other calls of the key hold in memory. */
export interface ApiKeyInMemoryHolds {
  readonly keyReserved: Micros
  readonly keyReservedDay?: Micros
  readonly keyReservedMonth?: Micros
}

/** Spending of keys with a cap. */
export interface KeySpendCounters {
  /** Total spending by key. */
  readonly keySpent: Readonly<Record<string, Micros>>
  /** Spending by key in the current UTC day and month. Holds are stored in the balance. */
  readonly keyWindows: Readonly<Record<string, SpendWindows>>
}

/** A durable hold in the form that key caps count. */
interface KeyHold {
  readonly keyId: string | null
  readonly worth: Micros
  readonly at: number
}

/** An amount to spend with a key. */
export interface KeySpendRequest extends ApiKeySpendCaps, Partial<ApiKeyInMemoryHolds> {
  readonly amount: Micros
  readonly at: number
  /** When the call was admitted, if earlier. The windows of that time count it. */
  readonly heldAt?: number
}

export const hasApiKeySpendCap = ({
  keyId,
  keyCap,
  keyCapPerDay = null,
  keyCapPerMonth = null,
}: ApiKeySpendCaps): boolean =>
  keyId !== null && (keyCap !== null || keyCapPerDay !== null || keyCapPerMonth !== null)

/** The windows of a key at a point in time, including its durable holds. */
export function keySpendWindowsAt(
  { keyWindows }: KeySpendCounters,
  holds: readonly KeyHold[],
  keyId: string,
  at: number,
): SpendWindows {
  const windows = spendWindowsAt(keyWindows[keyId] ?? newSpendWindows(at), at)
  const own = holds.filter((hold) => hold.keyId === keyId)
  const heldIn = (counts: (hold: KeyHold) => boolean) =>
    sumMicros(own.filter(counts).map(({ worth }) => worth))
  return {
    ...windows,
    heldDay: heldIn((hold) => utcDay(hold.at) >= windows.day),
    heldMonth: heldIn((hold) => utcMonth(hold.at) >= windows.month),
  }
}

/** The first cap of the key that an amount would exceed, if any. Free calls exceed none. */
export function findExceededKeyCap(
  counters: KeySpendCounters,
  holds: readonly KeyHold[],
  spend: KeySpendRequest,
): ApiKeyCapPeriod | undefined {
  const { keyId, keyCap, amount, at, heldAt } = spend
  if (amount === ZERO_MICROS || keyId === null || !hasApiKeySpendCap(spend)) return undefined
  const own = holds.filter((hold) => hold.keyId === keyId).map(({ worth }) => worth)
  const gone = sumMicros([
    counters.keySpent[keyId] ?? ZERO_MICROS,
    ...own,
    spend.keyReserved ?? ZERO_MICROS,
  ])
  if (keyCap !== null && gone + amount > keyCap) return 'total'
  const fuse = {
    perCall: null,
    perDay: spend.keyCapPerDay ?? null,
    perMonth: spend.keyCapPerMonth ?? null,
  }
  const metered = { ...keySpendWindowsAt(counters, holds, keyId, at), fuse }
  const reserved = {
    reservedDay: spend.keyReservedDay ?? ZERO_MICROS,
    reservedMonth: spend.keyReservedMonth ?? ZERO_MICROS,
  }
  const attempt =
    heldAt === undefined
      ? ({ type: 'ASK', amount, at, ...reserved } as const)
      : ({ type: 'CHARGE', amount, at, heldAt } as const)
  return findTrippedFuseLimit(metered, attempt)?.limit as 'per_day' | 'per_month' | undefined
}

/** Adds an amount to the spending of a key with a cap. */
export function addKeySpending(
  { keySpent, keyWindows }: KeySpendCounters,
  { keyId, capped }: { readonly keyId: string | null; readonly capped: boolean },
  { amount, heldAt, at }: { amount: Micros; heldAt: number; at: number },
): KeySpendCounters {
  if (keyId === null || !capped) return { keySpent, keyWindows }
  const windows = keyWindows[keyId] ?? newSpendWindows(heldAt)
  return {
    keySpent: { ...keySpent, [keyId]: addMicros(keySpent[keyId] ?? ZERO_MICROS, amount) },
    keyWindows: {
      ...keyWindows,
      [keyId]: settleSpendWindows(windows, { heldAt, at }, ZERO_MICROS, amount),
    },
  }
}
