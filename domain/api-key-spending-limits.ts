import type { Micros } from '../core/money.ts'

/** Spending limits of an API key: its caps and its Backpack. */
export interface ApiKeySpendingLimits {
  readonly id: string
  /** The id that spending is counted under, when the key replaced another. Default: its own id. */
  readonly spendingId?: string
  /**
   * The id shared by keys of one rotation chain; schedules run under it. A rotation after a leak
   * starts a new one. Default: the spending id.
   */
  readonly familyId?: string
  /** Total limit; null without one. */
  readonly cap: Micros | null
  /** Limit per UTC day. */
  readonly capPerDay: Micros | null
  /** Limit per UTC month. */
  readonly capPerMonth: Micros | null
  /** The Backpack of every call with this key; null for an unbound key. */
  readonly backpackId: string | null
}

/** The id that spending is counted under. A rotation passes it on to the new key. */
export const spendingCountIdOfApiKey = ({ id, spendingId = id }: ApiKeySpendingLimits): string =>
  spendingId

/** The id under which the schedules of a key run. */
export const keyFamilyIdForSchedules = (terms: ApiKeySpendingLimits): string =>
  terms.familyId ?? spendingCountIdOfApiKey(terms)

/** Terms of a key without limits. */
export const UNLIMITED_API_KEY_SPENDING: Omit<
  ApiKeySpendingLimits,
  'id' | 'spendingId' | 'familyId'
> = {
  cap: null,
  capPerDay: null,
  capPerMonth: null,
  backpackId: null,
}
