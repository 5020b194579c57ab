import type { Micros } from '../core/money.ts'

/** How one tool did for one agent. */
export interface ToolUsageStats {
  readonly tool: string
  readonly calls: number
  readonly failed: number
  /** Of the failed ones, those the agent itself got wrong or could not pay (`CALLER_ERROR_CODES`). */
  readonly callerErrors: number
  readonly spent: Micros
  readonly p95Ms: number
  /** Why calls failed, the most frequent first. */
  readonly failures: readonly { readonly code: string; readonly count: number }[]
  /** Repetitions of a request that was made already; known of requests with an Idempotency-Key. */
  readonly repeated: number
  readonly repeatedSpent: Micros
}

export interface DailyUsageStats {
  /** `2026-11-21`, UTC. */
  readonly day: string
  readonly calls: number
  readonly spent: Micros
}

export interface BackpackUsageStats {
  readonly id: string
  readonly state: string
  /** Null allows all. */
  readonly tools: readonly string[] | null
  readonly perCall: Micros | null
  readonly perDay: Micros | null
  readonly perMonth: Micros | null
  /** Tools that were called with it, and what they cost. */
  readonly used: readonly string[]
  readonly spent: Micros
  readonly maxCallCost: Micros
}

export interface ScheduleUsageStats {
  readonly id: string
  readonly tool: string
  readonly state: string
  readonly budget: Micros
  readonly everyMs: number
  readonly runs: number
  readonly failed: number
  readonly spent: Micros
  readonly maxRunCost: Micros
  /** Runs in a row, up to the last one, that failed. */
  readonly consecutiveFailures: number
  /** Runs whose result was the same as the one before. */
  readonly unchangedRuns: number
}

/** Agents that called both tools of late. */
export interface ToolCoUsage {
  readonly tool: string
  readonly other: string
  readonly agents: number
  /** Agents that called the first one. */
  readonly of: number
}
