import type { Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { createEvidence } from '../memory/evidence.ts'
import { createFacts } from '../memory/usage-facts.ts'
import { hiveEvidenceStore } from '../persistence/hive-evidence.ts'
import type { Sql } from '../persistence/plane.ts'
import { profileStore } from '../persistence/profiles.ts'
import { usageFactsStore } from '../persistence/usage-facts.ts'
import { answered } from '../persistence/within.ts'
import type { CatalogueView, Ports } from '../tools/ports.ts'
import { createPlanner } from '../tools/planner/planner.ts'
import type { Planning } from '../tools/planner/port.ts'
import { recommend } from '../tools/planner/recommend.ts'

export interface IntelligenceParts {
  readonly sql: Sql
  readonly clock: Clock
  readonly catalogue: CatalogueView
  readonly publicUrl: string
}

/** What is known of entries, agents and tools, for the tools that judge and plan. */
export function composeIntelligence({ sql, clock, catalogue, publicUrl }: IntelligenceParts) {
  const evidence = createEvidence(hiveEvidenceStore(sql), clock)
  const facts = createFacts(usageFactsStore(sql), clock)
  const profiles = profileStore(sql)
  const planner = createPlanner(() => catalogue.entries(), publicUrl)
  const ports: Pick<Ports, 'evidence' | 'facts' | 'planner'> = {
    evidence: { about: (text, wanted) => answered(evidence.about(text, wanted)) },
    facts: { of: (agentId, since) => answered(facts.of(agentId, since)) },
    planner,
  }
  const planning: Planning = {
    plan: planner.plan,
    async recommend(agentId, { own }) {
      const profile = await answered(profiles.of(agentId))
      if (profile === null) throw new ServiceError('agent_not_found', { agent_id: agentId })
      if (!own) return { used: [], suggestions: recommend([], [], [], catalogue.entries()) }
      const [used, together] = await Promise.all([
        answered(facts.publicTools(agentId)),
        answered(facts.together()),
      ])
      const words = [profile.description, profile.toolCategory].filter((one) => one !== null)
      const fitting = words.length === 0 ? [] : await planner.toolsFor(words.join(' '), 5)
      return { used, suggestions: recommend(used, together, fitting, catalogue.entries()) }
    },
  }
  return { ports, planning }
}
