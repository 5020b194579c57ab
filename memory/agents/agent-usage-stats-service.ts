import { DAY, MINUTE, type Clock } from '../../core/clock.ts'
import type { ToolCoUsage } from '../../domain/agent-usage-stats-types.ts'
import type { AgentUsageStatsStore } from '../../persistence/calls/agent-usage-stats-queries.ts'

/** Usage statistics of agents. */

const CO_USAGE_CACHE_MS = 10 * MINUTE
const PUBLIC_TOOLS_DAYS = 30

/** Statistics of one agent for itself (port `facts`), and of all agents for recommendations. */
export function createUsageStatsService(store: AgentUsageStatsStore, clock: Clock) {
  let together: { readonly until: number; readonly ready: Promise<ToolCoUsage[]> } | undefined

  return {
    async of(agentId: string, since: number) {
      const from = new Date(since)
      const [tools, days, backpacks, schedules, balance] = await Promise.all([
        store.toolsOf(agentId, from),
        store.daysOf(agentId, from),
        store.backpacksOf(agentId, from),
        store.schedulesOf(agentId, from),
        store.balanceOf(agentId),
      ])
      return { tools, days, backpacks, schedules, balance }
    },

    /** The tools an agent calls publicly. */
    publicTools: (agentId: string) =>
      store.publicToolsOf(agentId, new Date(clock.now() - PUBLIC_TOOLS_DAYS * DAY)),

    /**
     * Pairs of tools that the same agents called in the last day; read every ten minutes at most.
     */
    async together(): Promise<readonly ToolCoUsage[]> {
      const now = clock.now()
      if (together === undefined || now >= together.until) {
        const ready = store.together(new Date(now - DAY))
        together = { until: now + CO_USAGE_CACHE_MS, ready }
        ready.catch(() => (together = undefined))
      }
      return together.ready
    },
  }
}
