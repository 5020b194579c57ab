import type { ToolCoUsage } from '../../../domain/agent-usage-stats-types.ts'
import type { CatalogueEntry } from '../../tool-ports.ts'
import type { ToolRecommendation } from './planner-port.ts'

/** Ranks the tools recommended to an agent. */

const MAX_RECOMMENDATIONS = 8
/** Good calls that a tool is believed to have beside those that were measured, so that few calls decide little. */
const ASSUMED_GOOD_CALLS = 10
/** Number of agents from which co-usage counts in full. */
const FULL_TRUST_AGENTS = 10

/**
 * Ranks tools that the agent does not call yet: those called together with its tools, by their share and
 * discounted for few agents; then those that match its description; then those that most agents of this
 * station start with. The measured success of a tool is a factor of each.
 */
export function rankToolRecommendations(
  used: readonly string[],
  together: readonly ToolCoUsage[],
  fitting: readonly string[],
  entries: readonly CatalogueEntry[],
): ToolRecommendation[] {
  const found = new Map<string, ToolRecommendation>()
  const bySlug = new Map(entries.map((entry) => [entry.slug, entry]))
  const add = (tool: string, confidence: number, reason: string) => {
    const entry = bySlug.get(tool)
    if (entry === undefined || used.includes(tool)) return
    const rounded = Math.round(confidence * expectedSuccess(entry) * 100) / 100
    if ((found.get(tool)?.confidence ?? -1) >= rounded) return
    found.set(tool, {
      tool,
      confidence: rounded,
      reason: `${reason}${describeQuality(entry)}`,
      price_usdc: entry.price_usdc,
      success_rate: entry.success_rate,
    })
  }
  for (const { tool, other, agents, of } of together) {
    if (!used.includes(tool)) continue
    const trust = 1 - Math.exp((-3 * of) / FULL_TRUST_AGENTS)
    add(other, (agents / of) * trust, `${agents} of ${of} agents that call ${tool} call it too.`)
  }
  for (const [at, slug] of fitting.entries()) {
    add(slug, Math.max(0.2, 0.6 - 0.08 * at), 'It fits what the agent says of itself.')
  }
  if (found.size < 3) {
    for (const { slug } of entries.filter(({ access }) => access !== 'paid').slice(0, 5))
      add(slug, 0.1, 'It is free, and a good beginning.')
  }
  return [...found.values()]
    .sort((a, b) => b.confidence - a.confidence || (a.tool < b.tool ? -1 : 1))
    .slice(0, MAX_RECOMMENDATIONS)
}

/** The rate at which a call is expected to succeed; 1 before any was measured. */
function expectedSuccess({ quality, success_rate: rate }: CatalogueEntry): number {
  if (rate === null) return 1
  if (quality === undefined || quality === null) return rate
  return (rate * quality.calls + ASSUMED_GOOD_CALLS) / (quality.calls + ASSUMED_GOOD_CALLS)
}

function describeQuality({ quality }: CatalogueEntry): string {
  if (quality === undefined || quality === null || quality.success_rate === null) return ''
  const percent = Math.floor(quality.success_rate * 100)
  const half = percent === 0 ? '' : `, half of them within ${quality.p50_ms} ms`
  return ` Of ${quality.calls} calls ${percent} % succeeded${half}.`
}
