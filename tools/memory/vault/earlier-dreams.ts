import { toComparableText } from '../../../core/comparable-text.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { ToolContext } from '../../define-tool.ts'
import type { ProposedInsight } from './analyze-vault-for-dream.ts'
import { vaultToolCallerAgentId, toMemoryView } from './memory-schemas-and-staging.ts'
import type { VaultMemory } from '../../../domain/vault-memory.ts'
import type { DreamInsight } from '../../../domain/vault-memory.ts'

/** An earlier dream about some of the memories. */
export interface EarlierVaultDreamCall {
  readonly callId: string
  readonly at: number
  readonly insights: readonly DreamInsight[]
}

/** Loads the insights of the caller's earlier dreams that are still live. */
export async function loadEarlierVaultDreamInsights(context: ToolContext) {
  const at = context.now().getTime()
  const insights = await context.vault.insights(
    vaultToolCallerAgentId(context),
    LIMITS.vaultDreamt,
    at,
  )
  return {
    insights,

    /** Returns the latest dream that covered all of these memories; null without one. */
    of(memories: readonly VaultMemory[]): EarlierVaultDreamCall | null {
      const first = insights.find(({ origin }) => {
        const seen = new Set(idsOf(origin['looked_at']))
        return memories.every(({ id }) => seen.has(id))
      })
      if (first === undefined) return null
      const { callId, at } = first
      return { callId, at, insights: insights.filter((one) => one.callId === callId) }
    },

    /** Returns whether the vault already has this insight. */
    isSaid(insight: ProposedInsight): boolean {
      const earlier = findSimilarInsight(insight, insights)
      if (earlier === undefined) return false
      return insight.kind === 'single' || sameText(insight, earlier)
    },

    /** Returns the insight that this one updates: a theme that grew, or a question asked more often. */
    saidOtherwise: (insight: ProposedInsight): DreamInsight | null =>
      findSimilarInsight(
        insight,
        insights.filter(({ isLive }) => isLive),
      ) ?? null,
  }
}
export type EarlierVaultDreamInsights = Awaited<ReturnType<typeof loadEarlierVaultDreamInsights>>

/** Returns an insight with its source memories. */
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
const plain = (content: string): string => toComparableText(content).split(/\s+/).join(' ').trim()

/** Returns whether one set of memories contains the other. */
function isNested(one: readonly string[], other: readonly string[]): boolean {
  const [few, many] = one.length < other.length ? [one, other] : [other, one]
  return few.every((id) => many.includes(id))
}

const idsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((id): id is string => typeof id === 'string') : []
