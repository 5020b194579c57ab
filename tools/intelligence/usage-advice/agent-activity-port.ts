import type { Micros } from '../../../core/money.ts'
import type {
  BackpackUsageStats,
  DailyUsageStats,
  AgentScheduleUsageStats,
  AgentToolUsageStats,
} from '../../../domain/agent-usage-stats-types.ts'

/** Activity of an agent since an instant, from the call log and the ledger. */
export interface AgentActivityReport {
  readonly tools: readonly AgentToolUsageStats[]
  readonly days: readonly DailyUsageStats[]
  readonly backpacks: readonly BackpackUsageStats[]
  readonly schedules: readonly AgentScheduleUsageStats[]
  readonly balance: Micros
}

/** Reads the activity of agents that ask about themselves. */
export interface AgentActivityReader {
  /** `since` in milliseconds. */
  readActivity(agentId: string, since: number): Promise<AgentActivityReport>
}
