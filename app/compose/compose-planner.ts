import type { Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { createHiveEntryWithReputationLookup } from '../../memory/hive/hive-entries-with-author-reputation.ts'
import { createUsageStatsService } from '../../memory/agents/agent-usage-stats-service.ts'
import { createHiveEvidenceReader } from '../../persistence/hive/hive-entries-about-topic-reader.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { createAgentProfileStore } from '../../persistence/agents/agent-profile-store.ts'
import { createAgentUsageStatsStore } from '../../persistence/calls/agent-usage-stats-queries.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import type { ToolCatalogueReader, ToolPorts } from '../../tools/tool-ports.ts'
import { createTaskPlanner } from '../../tools/intelligence/planner/planner.ts'
import type { TaskPlanningService } from '../../tools/intelligence/planner/planner-port.ts'
import { rankToolRecommendations } from '../../tools/intelligence/planner/rank-tool-recommendations.ts'

/** Composes evidence, usage statistics and planning. */

export interface ComposePlannerDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly catalogue: ToolCatalogueReader
  readonly publicUrl: string
}

/** Creates the services for tools that assess and plan. */
export function composePlanner({ sql, clock, catalogue, publicUrl }: ComposePlannerDeps) {
  const evidence = createHiveEntryWithReputationLookup(createHiveEvidenceReader(sql), clock)
  const usageStats = createUsageStatsService(createAgentUsageStatsStore(sql), clock)
  const profiles = createAgentProfileStore(sql)
  const planner = createTaskPlanner(() => catalogue.entries(), publicUrl)
  const ports: Pick<ToolPorts, 'evidence' | 'facts' | 'planner'> = {
    evidence: { about: (text, wanted) => withDatabaseAnswerTimeout(evidence.about(text, wanted)) },
    facts: {
      readActivity: (agentId, since) => withDatabaseAnswerTimeout(usageStats.of(agentId, since)),
    },
    planner,
  }
  const planning: TaskPlanningService = {
    plan: planner.plan,
    async recommend(agentId, { own }) {
      const profile = await withDatabaseAnswerTimeout(profiles.of(agentId))
      if (profile === null) throw new ServiceError('agent_not_found', { agent_id: agentId })
      if (!own)
        return { used: [], suggestions: rankToolRecommendations([], [], [], catalogue.entries()) }
      const [used, together] = await Promise.all([
        withDatabaseAnswerTimeout(usageStats.publicTools(agentId)),
        withDatabaseAnswerTimeout(usageStats.together()),
      ])
      const words = [profile.description, profile.toolCategory].filter((one) => one !== null)
      const fitting = words.length === 0 ? [] : await planner.toolsFor(words.join(' '), 5)
      return {
        used,
        suggestions: rankToolRecommendations(used, together, fitting, catalogue.entries()),
      }
    },
  }
  return { ports, planning }
}
