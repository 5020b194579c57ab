import type { Micros } from './money.ts'

/** What bounds the spending of an API key: its caps, and the Backpack it acts in. */
export interface KeyTerms {
  readonly id: string
  /** What it may spend in all; null for no such limit. */
  readonly cap: Micros | null
  /** What it may spend in a UTC day. */
  readonly capPerDay: Micros | null
  /** What it may spend in a UTC month. */
  readonly capPerMonth: Micros | null
  /** The Backpack that every call with it acts in; null for a key that is bound to none. */
  readonly backpackId: string | null
}

/** The terms of a key without limits. */
export const UNLIMITED_KEY: Omit<KeyTerms, 'id'> = {
  cap: null,
  capPerDay: null,
  capPerMonth: null,
  backpackId: null,
}
