import { utcDay, utcMonth } from '../../core/clock.ts'
import { addMicros, sumMicros, ZERO, type Micros } from '../../core/money.ts'
import {
  newSpendWindows,
  settleSpendWindows,
  findTrippedFuseLimit,
  spendWindowsAt,
  type SpendWindows,
} from '../backpack/fuse-limits.ts'

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
export interface KeyReservedSpend {
  readonly keyReserved: Micros
  readonly keyReservedDay?: Micros
  readonly keyReservedMonth?: Micros
}

/** What is counted of the keys that have a cap. */
export interface KeySpendCounters {
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
export interface KeySpendRequest extends KeyLimits, Partial<KeyReservedSpend> {
  readonly amount: Micros
  readonly at: number
  /** When the call was admitted, where that was before; the windows of that instant count it. */
  readonly heldAt?: number
}

export const hasKeyCap = ({
  keyId,
  keyCap,
  keyCapPerDay = null,
  keyCapPerMonth = null,
}: KeyLimits): boolean =>
  keyId !== null && (keyCap !== null || keyCapPerDay !== null || keyCapPerMonth !== null)

/** The windows of a key as they stand at an instant, with what its durable holds keep in them. */
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

/** The first cap of its key that an amount would exceed, if any; a free call exceeds none. */
export function findExceededKeyCap(
  counters: KeySpendCounters,
  holds: readonly KeyHold[],
  spend: KeySpendRequest,
): KeyLimit | undefined {
  const { keyId, keyCap, amount, at, heldAt } = spend
  if (amount === ZERO || keyId === null || !hasKeyCap(spend)) return undefined
  const own = holds.filter((hold) => hold.keyId === keyId).map(({ worth }) => worth)
  const gone = sumMicros([counters.keySpent[keyId] ?? ZERO, ...own, spend.keyReserved ?? ZERO])
  if (keyCap !== null && gone + amount > keyCap) return 'total'
  const fuse = {
    perCall: null,
    perDay: spend.keyCapPerDay ?? null,
    perMonth: spend.keyCapPerMonth ?? null,
  }
  const metered = { ...keySpendWindowsAt(counters, holds, keyId, at), fuse }
  const reserved = {
    reservedDay: spend.keyReservedDay ?? ZERO,
    reservedMonth: spend.keyReservedMonth ?? ZERO,
  }
  const asked =
    heldAt === undefined
      ? ({ type: 'ASK', amount, at, ...reserved } as const)
      : ({ type: 'CHARGE', amount, at, heldAt } as const)
  return findTrippedFuseLimit(metered, asked)?.limit as 'per_day' | 'per_month' | undefined
}

/** What a key with a cap has spent after an amount more. */
export function addKeySpending(
  { keySpent, keyWindows }: KeySpendCounters,
  { keyId, capped }: { readonly keyId: string | null; readonly capped: boolean },
  { amount, heldAt, at }: { amount: Micros; heldAt: number; at: number },
): KeySpendCounters {
  if (keyId === null || !capped) return { keySpent, keyWindows }
  const windows = keyWindows[keyId] ?? newSpendWindows(heldAt)
  return {
    keySpent: { ...keySpent, [keyId]: addMicros(keySpent[keyId] ?? ZERO, amount) },
    keyWindows: {
      ...keyWindows,
      [keyId]: settleSpendWindows(windows, { heldAt, at }, ZERO, amount),
    },
  }
}
