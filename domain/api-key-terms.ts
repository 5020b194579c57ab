import type { Micros } from '../core/money.ts'

/** What bounds the spending of an API key: its caps, and the Backpack it acts in. */
export interface ApiKeyTerms {
  readonly id: string
  /** Under which its spending is counted, where it replaced another key; absent: its own id. */
  readonly spendingId?: string
  /**
   * Of the keys that follow one another by rotation: schedules run under it. A rotation because of a leak
   * begins another one. Absent: the id of its spending.
   */
  readonly familyId?: string
  /** What it may spend in all; null for no such limit. */
  readonly cap: Micros | null
  /** What it may spend in a UTC day. */
  readonly capPerDay: Micros | null
  /** What it may spend in a UTC month. */
  readonly capPerMonth: Micros | null
  /** The Backpack that every call with it acts in; null for a key that is bound to none. */
  readonly backpackId: string | null
}

/** The id under which the spending of a key is counted: a rotation hands it on to the new key. */
export const keySpendingId = ({ id, spendingId = id }: ApiKeyTerms): string => spendingId

/** The id under which schedules run that are made with a key. */
export const keyFamilyId = (terms: ApiKeyTerms): string => terms.familyId ?? keySpendingId(terms)

/** The terms of a key without limits. */
export const UNLIMITED_KEY_TERMS: Omit<ApiKeyTerms, 'id' | 'spendingId' | 'familyId'> = {
  cap: null,
  capPerDay: null,
  capPerMonth: null,
  backpackId: null,
}
