import type { Micros } from '../../../core/money.ts'
import type {
  BackpackUsageStats,
  DailyUsageStats,
  ScheduleUsageStats,
  ToolUsageStats,
} from '../../../domain/usage-stats.ts'

/** What the call log and the ledger say of an agent since an instant. */
export interface AgentActivityReport {
  readonly tools: readonly ToolUsageStats[]
  readonly days: readonly DailyUsageStats[]
  readonly backpacks: readonly BackpackUsageStats[]
  readonly schedules: readonly ScheduleUsageStats[]
  readonly balance: Micros
}

/** What agents did, for those who ask about themselves. */
export interface AgentActivityReader {
  /** `since` in milliseconds. */
  readActivity(agentId: string, since: number): Promise<AgentActivityReport>
}
