import type { Micros } from '../core/money.ts'
import type { SnapshotOf } from '../actors/registry.ts'

/** The payment of a call that another rail pays for. */
export type PaymentRef = NonNullable<SnapshotOf<'agent'>['context']['holds'][string]['payment']>

/** A call that asks to be let in: by its Backpack, its task, its key and the balance, in this order. */
export interface Admission {
  readonly callId: string
  readonly tool: string
  /** What it will cost at most. */
  readonly amount: Micros
  readonly key: { readonly id: string; readonly cap: Micros | null } | null
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly idempotencyKey: string | null
  /** Null for a hold in memory; else the instant a durable hold expires, in milliseconds. */
  readonly expiresAt: number | null
  /** Another rail pays for it: the hold is durable then, and the purse is not asked. */
  readonly payment: PaymentRef | null
  /** What a fleet's pool has lent for it. */
  readonly lent?: Micros
}

/** What other calls hold in memory right now, by the limits it counts in. */
export interface Reserved {
  readonly agent: Micros
  readonly key: Micros
  readonly task: Micros
  readonly day: Micros
  readonly month: Micros
}
