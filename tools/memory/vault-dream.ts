import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { VAULT_DREAM_PRICE } from '../../domain/pricing.ts'
import { llmOptionalToolAvailability } from '../tool-availability.ts'
import { defineTool, type ToolContext } from '../define-tool.ts'
import {
  recommendVaultMemoryActions,
  analyzeVaultMemories,
  proposeVaultMemoryInsights,
  summarizeVaultMemoryAnalysis,
  truncateMemoryText,
  type VaultMemoryAnalysis,
  type ProposedInsight,
} from './vault/analyze-vault-for-dream.ts'
import {
  loadEarlierVaultDreamInsights,
  toInsightView,
  type EarlierVaultDreamInsights,
  type EarlierVaultDreamCall,
} from './vault/earlier-dreams.ts'
import {
  MAX_DREAM_INSIGHTS,
  deriveVaultMemoryInsightsWithLlm,
} from './vault/derive-vault-insights-with-llm.ts'
import {
  stageMemoryReplacement,
  DateTimeField,
  stageMemory,
  MemorySchema,
  vaultToolCallerAgentId,
  UuidField,
} from './vault/memory-schemas-and-staging.ts'
import type { VaultMemory } from '../../domain/vault-memory.ts'

/** The tool `vault-dream`: derives insights from recent memories. */

const MIN_MEMORIES = 3
const INSIGHT_IMPORTANCE = 0.6

export default defineTool({
  slug: 'vault_dream',
  name: 'Vault Dream',
  category: 'memory',
  description: `Analyses up to ${LIMITS.vaultDream} memories: patterns, contradictions, gaps, and up to seven insights that are written back, none of them twice. Without new memories since an earlier dream it names that dream and is free.`,
  tags: ['vault', 'memory', 'insight'],
  useCases: ['Reflect overnight', 'Find contradictions', 'See what is missing'],
  examples: [{}],
  access: 'paid',
  keyRequired: true,
  unlisted: true,
  price: VAULT_DREAM_PRICE,
  effect: 'internal',
  timeoutMs: 60_000,
  input: Type.Object({}, { additionalProperties: false }),
  output: Type.Object({
    dream_report: Type.Object({
      summary: Type.String(),
      contradictions: Type.Array(
        Type.Object({
          first_id: UuidField,
          first: Type.String(),
          second_id: UuidField,
          second: Type.String(),
          reason: Type.Enum(['other_numbers', 'opposite']),
        }),
      ),
      patterns: Type.Array(
        Type.Object({
          keywords: Type.Array(Type.String()),
          memories: Type.Integer({ minimum: 2 }),
          example: Type.String(),
          sources: Type.Array(UuidField),
        }),
      ),
      recommended_actions: Type.Array(Type.String()),
      knowledge_gaps: Type.Array(
        Type.Object({ query: Type.String(), times_asked: Type.Integer({ minimum: 1 }) }),
      ),
    }),
    insights: Type.Array(
      Type.Object({ ...MemorySchema.properties, sources: Type.Array(UuidField) }),
    ),
    insights_written: Type.Integer({
      minimum: 0,
      maximum: MAX_DREAM_INSIGHTS,
      description: 'Three to seven; fewer where the others exist already, 0 when nothing is new.',
    }),
    earlier_dream: Type.Union(
      [Type.Object({ call_id: UuidField, at: DateTimeField }), Type.Null()],
      {
        description: 'An earlier dream of all these memories; `insights` are its remaining ones.',
      },
    ),
    memories_analyzed: Type.Integer({ minimum: MIN_MEMORIES, maximum: LIMITS.vaultDream }),
    method: Type.Enum(['embedded/clusters-1', 'clusters+llm']),
  }),
  availability: llmOptionalToolAvailability('clusters'),
  async run(_input, context) {
    const { now, vault, emit } = context
    const at = now().getTime()
    const { seen, memories } = await vault.newest(
      vaultToolCallerAgentId(context),
      LIMITS.vaultDream,
      at,
    )
    if (memories.length < MIN_MEMORIES)
      throw new ServiceError('not_enough_memories', {
        found: memories.length,
        needed: MIN_MEMORIES,
      })
    emit({ type: 'progress', step: 'memories', note: `${memories.length} to be looked at` })
    const before = await loadEarlierVaultDreamInsights(context)
    const earlier = before.of(memories)
    const dream = await analyzeVaultMemories(memories, context)
    if (earlier !== null) return repeatEarlierDream(earlier, dream, memories, context)
    const llmInsights = await deriveVaultMemoryInsightsWithLlm(memories, context)
    const method =
      llmInsights === null ? ('embedded/clusters-1' as const) : ('clusters+llm' as const)
    const fresh = (llmInsights?.insights ?? []).filter((one) => !before.isSaid(one))
    const kept =
      fresh.length > 0 ? fresh : proposeVaultMemoryInsights(dream, memories, before.isSaid)
    stageDreamOrder(seen, context)
    const insights = []
    for (const [place, one] of kept.entries()) {
      const looked = place === 0 ? { looked_at: memories.map(({ id }) => id) } : {}
      insights.push(await stageInsight(one, { method, ...looked }, before, context))
    }
    return {
      dream_report: {
        summary: llmInsights?.summary ?? summarizeVaultMemoryAnalysis(dream, memories.length),
        ...toReport(dream),
        recommended_actions:
          llmInsights?.actions ?? recommendVaultMemoryActions(dream, memories, at),
      },
      insights,
      insights_written: insights.length,
      earlier_dream: null,
      memories_analyzed: memories.length,
      method,
    }
  },
})

/** Of two concurrent calls on the same memories one commits, so they are dreamt once. */
function stageDreamOrder(seen: number, { stage, caller, callId, now }: ToolContext): void {
  stage.changeEntitlement({ type: 'ORDER', seen })
  stage.row('vault_consolidations', {
    agent_id: caller.agentId,
    call_id: callId,
    at: now().toISOString(),
  })
}

/** Returns the earlier dream when nothing is new, without a write or a charge. */
function repeatEarlierDream(
  { callId, at, insights }: EarlierVaultDreamCall,
  dream: VaultMemoryAnalysis,
  memories: readonly VaultMemory[],
  { meter, now }: ToolContext,
) {
  const since = `Nothing is new since the dream of ${new Date(at).toISOString()} (call ${callId}).`
  meter.waive(since)
  return {
    dream_report: {
      summary: `${since} ${summarizeVaultMemoryAnalysis(dream, memories.length)}`,
      ...toReport(dream),
      recommended_actions: recommendVaultMemoryActions(dream, memories, now().getTime()),
    },
    insights: insights.filter(({ isLive }) => isLive).map(toInsightView),
    insights_written: 0,
    earlier_dream: { call_id: callId, at: new Date(at).toISOString() },
    memories_analyzed: memories.length,
    method: 'embedded/clusters-1' as const,
  }
}

async function stageInsight(
  insight: ProposedInsight,
  how: Readonly<Record<string, unknown>>,
  before: EarlierVaultDreamInsights,
  context: ToolContext,
) {
  const { content, sources, kind, asked } = insight
  const origin = { by: 'dream', ...how, kind, sources, ...(asked === undefined ? {} : { asked }) }
  const type = 'insight' as const
  const draft = {
    content,
    type,
    tags: ['dream'],
    importance: INSIGHT_IMPORTANCE,
    immortal: false,
    origin,
  }
  const { decay: _new, ...memory } = await stageMemory(context, draft)
  const old = before.saidOtherwise(insight)
  if (old !== null) stageMemoryReplacement(context, old.id, 'superseded', memory.id)
  return { ...memory, sources: [...sources] }
}

const toReport = ({ patterns, contradictions, gaps }: VaultMemoryAnalysis) => ({
  contradictions: contradictions.map(({ first, second, why }) => ({
    first_id: first.id,
    first: truncateMemoryText(first.content),
    second_id: second.id,
    second: truncateMemoryText(second.content),
    reason: why,
  })),
  patterns: patterns.map(({ keywords, members, centre }) => ({
    keywords: [...keywords],
    memories: members.length,
    example: truncateMemoryText(centre.content),
    sources: members.map(({ id }) => id),
  })),
  knowledge_gaps: gaps.map(({ query, times }) => ({ query, times_asked: times })),
})
