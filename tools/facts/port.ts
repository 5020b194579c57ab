import type { Micros } from '../../core/money.ts'
import type { BackpackFacts, DayFacts, ScheduleFacts, ToolFacts } from '../../core/usage-facts.ts'

/** What the call log and the ledger say of an agent since an instant. */
export interface AgentFacts {
  readonly tools: readonly ToolFacts[]
  readonly days: readonly DayFacts[]
  readonly backpacks: readonly BackpackFacts[]
  readonly schedules: readonly ScheduleFacts[]
  readonly balance: Micros
}

/** What agents did, for those who ask about themselves. */
export interface Facts {
  /** `since` in milliseconds. */
  of(agentId: string, since: number): Promise<AgentFacts>
}
