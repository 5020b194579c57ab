import type { ApiKeyTerms } from '../domain/api-key-terms.ts'
import type { Micros } from '../core/money.ts'
import type { DailyToolQuota } from '../core/commit-rows.ts'
import type { ActorSnapshot } from '../actors/machine-registry.ts'

/** The payment of a call that another rail pays for. */
export type PaymentRef = NonNullable<ActorSnapshot<'agent'>['context']['holds'][string]['payment']>

/** A call that asks to be let in: by its Backpack, its task, its key and the balance, in this order. */
export interface CallAdmission {
  readonly callId: string
  readonly tool: string
  /** What it will cost at most. */
  readonly amount: Micros
  readonly key: ApiKeyTerms | null
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly idempotencyKey: string | null
  /** Null for a hold in memory; else the instant a durable hold expires, in milliseconds. */
  readonly expiresAt: number | null
  /** Another rail pays for it: the hold is durable then, and the purse is not asked. */
  readonly payment: PaymentRef | null
  /** How often the agent may call this tool a day; the hold is durable then. */
  readonly quota?: DailyToolQuota | undefined
  /** What a fleet's pool has lent for it. */
  readonly lent?: Micros
  /** A call with effects outside: what its Idempotency-Key answers when nobody lives to say more. */
  readonly intent?: OutcomeUnknownReply | undefined
}

/** Kept with the timer of a durable hold. */
export interface OutcomeUnknownReply {
  readonly hash: string
  readonly keyId: string | null
  readonly ghost: boolean
  /** The stored answer, as JSON. */
  readonly response: string
}

/** Who spends: the key of the request, and the Backpack it acts in. */
export type Spender = Pick<CallAdmission, 'key' | 'backpackId'>

/** What other calls hold in memory right now, by the limits it counts in. */
export interface ReservedAmounts {
  readonly agent: Micros
  readonly key: Micros
  /** Of the key, in the present UTC day and month. */
  readonly keyDay: Micros
  readonly keyMonth: Micros
  readonly task: Micros
  readonly day: Micros
  readonly month: Micros
}
