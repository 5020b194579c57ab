import type { Micros } from '../core/money.ts'

/** The most an answer of a model may cost, as it is taken from a day's budget. */
export interface LlmSpendReservation {
  /** `2026-11-21`, UTC. */
  readonly day: string
  /** Whose shares it counts in, each once: the agent, and the address it calls from. */
  readonly spenders: readonly string[]
  readonly amount: Micros
}

/** `day`: not so much is left of the budget; `share`: not so much of what one spender may use of it. */
export type LlmReservationResult = 'taken' | 'day' | 'share'

/** What one attempt at one model did cost, whatever became of the call. */
export interface LlmAttemptCost {
  readonly callId: string
  readonly provider: string
  readonly model: string
  /** `ok`, or the code of its failure. */
  readonly outcome: string
  readonly cost: Micros
  /** The provider did not tell what was used. */
  readonly estimated: boolean
  readonly at: number
}
