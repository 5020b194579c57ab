import { LIMITS } from '../../core/limits.ts'
import type { ToolContext } from '../define.ts'
import type { Insight } from './dreaming.ts'
import { ownerOf, present } from './keep.ts'
import type { DreamtInsight, Memory } from './port.ts'

/** A dream that has looked at some memories already. */
export interface EarlierDream {
  readonly callId: string
  readonly at: number
  readonly insights: readonly DreamtInsight[]
}

/** What earlier dreams of the caller have said, as far as it is not forgotten. */
export async function dreamtBefore(context: ToolContext) {
  const at = context.now().getTime()
  const insights = await context.vault.insights(ownerOf(context), LIMITS.vaultDreamt, at)
  return {
    insights,

    /** The latest dream that looked at all of these; null where one is new to each. */
    of(memories: readonly Memory[]): EarlierDream | null {
      const first = insights.find(({ origin }) => {
        const seen = new Set(idsOf(origin['looked_at']))
        return memories.every(({ id }) => seen.has(id))
      })
      if (first === undefined) return null
      const { callId, at } = first
      return { callId, at, insights: insights.filter((one) => one.callId === callId) }
    },

    /** It says what stands in the vault. */
    isSaid(insight: Insight): boolean {
      const earlier = alike(insight, insights)
      if (earlier === undefined) return false
      return insight.kind === 'single' || sameText(insight, earlier)
    },

    /** What the insight says anew: of a theme that has grown, of a question asked more often. */
    saidOtherwise: (insight: Insight): DreamtInsight | null =>
      alike(
        insight,
        insights.filter(({ isLive }) => isLive),
      ) ?? null,
  }
}
export type DreamtBefore = Awaited<ReturnType<typeof dreamtBefore>>

/** An insight with the memories it is made of. */
export const insightView = (insight: Memory) => ({
  ...present(insight),
  sources: idsOf(insight.origin['sources']),
})

const alike = (insight: Insight, earlier: readonly DreamtInsight[]): DreamtInsight | undefined =>
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
