import type { Micros } from '../core/money.ts'

/** A reservation of a model call's maximum cost in the daily budget. */
export interface LlmSpendReservation {
  /** UTC, as `2026-11-21`. */
  readonly day: string
  /** Spenders whose shares it counts in, each once: the agent, its address and the IPv6 /48 of it. */
  readonly spenders: readonly string[]
  readonly amount: Micros
}

/** `day`: the budget lacks the amount; `share`: one spender's share of it does. */
export type LlmReservationResult = 'taken' | 'day' | 'share'

/** The cost of one attempt with one model, for any result of the call. */
export interface LlmAttemptCost {
  readonly callId: string
  readonly provider: string
  readonly model: string
  /** `ok` or an error code. */
  readonly outcome: string
  readonly cost: Micros
  /** The provider did not report usage. */
  readonly estimated: boolean
  readonly at: number
}
