import { LIMITS } from '../../../core/limits.ts'
import type { ToolContext } from '../../define-tool.ts'
import type { ProposedInsight } from './dream-analysis.ts'
import { vaultAgentIdOf, toMemoryView } from './stage-memory.ts'
import type { VaultMemory } from '../../../domain/vault-memory.ts'
import type { DreamInsight } from '../../../domain/vault-memory.ts'

/** A dream that has looked at some memories already. */
export interface EarlierDream {
  readonly callId: string
  readonly at: number
  readonly insights: readonly DreamInsight[]
}

/** What earlier dreams of the caller have said, as far as it is not forgotten. */
export async function loadEarlierDreams(context: ToolContext) {
  const at = context.now().getTime()
  const insights = await context.vault.insights(vaultAgentIdOf(context), LIMITS.vaultDreamt, at)
  return {
    insights,

    /** The latest dream that looked at all of these; null where one is new to each. */
    of(memories: readonly VaultMemory[]): EarlierDream | null {
      const first = insights.find(({ origin }) => {
        const seen = new Set(idsOf(origin['looked_at']))
        return memories.every(({ id }) => seen.has(id))
      })
      if (first === undefined) return null
      const { callId, at } = first
      return { callId, at, insights: insights.filter((one) => one.callId === callId) }
    },

    /** It says what stands in the vault. */
    isSaid(insight: ProposedInsight): boolean {
      const earlier = findSimilarInsight(insight, insights)
      if (earlier === undefined) return false
      return insight.kind === 'single' || sameText(insight, earlier)
    },

    /** What the insight says anew: of a theme that has grown, of a question asked more often. */
    saidOtherwise: (insight: ProposedInsight): DreamInsight | null =>
      findSimilarInsight(
        insight,
        insights.filter(({ isLive }) => isLive),
      ) ?? null,
  }
}
export type EarlierDreams = Awaited<ReturnType<typeof loadEarlierDreams>>

/** An insight with the memories it is made of. */
export const toInsightView = (insight: VaultMemory) => ({
  ...toMemoryView(insight),
  sources: idsOf(insight.origin['sources']),
})

const findSimilarInsight = (
  insight: ProposedInsight,
  earlier: readonly DreamInsight[],
): DreamInsight | undefined =>
  earlier.find((one) => sameText(insight, one)) ??
  earlier.find(
    ({ origin }) =>
      insight.kind !== 'told' &&
      origin['kind'] === insight.kind &&
      (origin['asked'] ?? null) === (insight.asked ?? null) &&
      isNested(idsOf(origin['sources']), insight.sources),
  )

const sameText = (one: { content: string }, other: { content: string }): boolean =>
  plain(one.content) === plain(other.content)
const plain = (content: string): string => content.toLowerCase().split(/\s+/).join(' ').trim()

/** The memories of one are all among those of the other. */
function isNested(one: readonly string[], other: readonly string[]): boolean {
  const [few, many] = one.length < other.length ? [one, other] : [other, one]
  return few.every((id) => many.includes(id))
}

const idsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((id): id is string => typeof id === 'string') : []
