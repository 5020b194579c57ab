import type { Micros } from '../core/money.ts'

/** Usage of one tool by one agent. */
export interface AgentToolUsageStats {
  readonly tool: string
  readonly calls: number
  readonly failed: number
  /** Failures that the caller caused (`CALLER_ERROR_CODES`). */
  readonly callerErrors: number
  readonly spent: Micros
  readonly p95Ms: number
  /** Error codes, most frequent first. */
  readonly failures: readonly { readonly code: string; readonly count: number }[]
  /** Repetitions of earlier requests, known for requests with an Idempotency-Key. */
  readonly repeated: number
  readonly repeatedSpent: Micros
}

export interface DailyUsageStats {
  /** UTC, as `2026-11-21`. */
  readonly day: string
  readonly calls: number
  readonly spent: Micros
}

export interface BackpackUsageStats {
  readonly id: string
  readonly state: string
  /** Null permits all. */
  readonly tools: readonly string[] | null
  readonly perCall: Micros | null
  readonly perDay: Micros | null
  readonly perMonth: Micros | null
  /** Tools called with it, and their total cost. */
  readonly used: readonly string[]
  readonly spent: Micros
  readonly maxCallCost: Micros
}

export interface AgentScheduleUsageStats {
  readonly id: string
  readonly tool: string
  readonly state: string
  readonly budget: Micros
  readonly everyMs: number
  readonly runs: number
  readonly failed: number
  readonly spent: Micros
  readonly maxRunCost: Micros
  /** Consecutive failed runs up to the last one. */
  readonly consecutiveFailures: number
  /** Runs with the same result as the previous one. */
  readonly unchangedRuns: number
}

/** Number of agents that recently called both tools. */
export interface ToolCoUsage {
  readonly tool: string
  readonly other: string
  readonly agents: number
  /** Agents that called the first tool. */
  readonly of: number
}
