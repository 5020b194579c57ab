import type { ApiKeySpendingLimits } from '../domain/api-key-spending-limits.ts'
import type { Micros } from '../core/money.ts'
import type { DailyToolQuota } from '../core/aggregate-commit-row-types.ts'
import type { ActorSnapshot } from '../actors/machine-registry.ts'

/** The payment of a call that is paid for outside the credits. */
export type ExternalCallPaymentRef = NonNullable<
  ActorSnapshot<'agent'>['context']['holds'][string]['payment']
>

/**
 * A call to admit, checked against its Backpack, its task, its key and the balance, in this order.
 */
export interface CallAdmissionRequest {
  readonly callId: string
  readonly tool: string
  /** The highest price of the call. */
  readonly amount: Micros
  readonly key: ApiKeySpendingLimits | null
  /** Only deposited credits pay; promotional ones pay first by default. */
  readonly from?: 'cash'
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly idempotencyKey: string | null
  /** Null for a hold in memory; else when the durable hold expires, in milliseconds. */
  readonly expiresAt: number | null
  /** Set if paid outside the credits: the hold is durable and the balance is not checked. */
  readonly payment: ExternalCallPaymentRef | null
  /** A task pass may pay it: a native call of a fixed price. */
  readonly passable?: boolean
  /** How often the agent may call this tool a day; requires a durable hold. */
  readonly quota?: DailyToolQuota | undefined
  /** Credits that a fleet's pool has lent for it. */
  readonly lent?: Micros
  /** For a call with outside effects: the reply of its Idempotency-Key if its node dies. */
  readonly intent?: OutcomeUnknownReply | undefined
}

/** Stored with the timer of a durable hold. */
export interface OutcomeUnknownReply {
  readonly hash: string
  readonly keyId: string | null
  readonly ghost: boolean
  /** The stored reply, as JSON. */
  readonly response: string
}

/** Whose limits count a spend: the key of the request, its Backpack and its task. */
export type Spender = Pick<CallAdmissionRequest, 'key' | 'backpackId' | 'taskId'>

/** Credits that other calls hold in memory, by limit. */
export interface CreditsHeldByOtherCalls {
  readonly agent: Micros
  readonly key: Micros
  /** Of the key, in the current UTC day and month. */
  readonly keyDay: Micros
  readonly keyMonth: Micros
  readonly task: Micros
  readonly day: Micros
  readonly month: Micros
}
