import Type from 'typebox'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { VAULT_DREAM } from '../core/prices.ts'
import { withModel } from './availability.ts'
import { defineTool, type ToolContext } from './define.ts'
import {
  actionsOf,
  dreamOf,
  insightsOf,
  sentenceOf,
  short,
  type Dream,
  type Insight,
} from './vault/dreaming.ts'
import { dreamtBefore, insightView, type DreamtBefore, type EarlierDream } from './vault/dreamt.ts'
import { MOST_INSIGHTS, toldByModel } from './vault/dreamer.ts'
import { archive, Instant, keep, MemoryView, ownerOf, Uuid } from './vault/keep.ts'
import type { Memory } from './vault/port.ts'

const FEWEST = 3
const IMPORTANCE = 0.6

export default defineTool({
  slug: 'vault_dream',
  name: 'Vault Dream',
  category: 'memory',
  description: `Looks at up to ${LIMITS.vaultDream} memories at once: patterns, contradictions, gaps, and up to seven insights that are written back, none of them twice. Where nothing is new since an earlier dream it says so and costs nothing.`,
  tags: ['vault', 'memory', 'insight'],
  useCases: ['Reflect overnight', 'Find contradictions', 'See what is missing'],
  examples: [{}],
  access: 'paid',
  keyRequired: true,
  unlisted: true,
  price: VAULT_DREAM,
  effect: 'internal',
  timeoutMs: 60_000,
  input: Type.Object({}, { additionalProperties: false }),
  output: Type.Object({
    dream_report: Type.Object({
      summary: Type.String(),
      contradictions: Type.Array(
        Type.Object({
          first_id: Uuid,
          first: Type.String(),
          second_id: Uuid,
          second: Type.String(),
          reason: Type.Enum(['other_numbers', 'opposite']),
        }),
      ),
      patterns: Type.Array(
        Type.Object({
          keywords: Type.Array(Type.String()),
          memories: Type.Integer({ minimum: 2 }),
          example: Type.String(),
          sources: Type.Array(Uuid),
        }),
      ),
      recommended_actions: Type.Array(Type.String()),
      knowledge_gaps: Type.Array(
        Type.Object({ query: Type.String(), times_asked: Type.Integer({ minimum: 1 }) }),
      ),
    }),
    insights: Type.Array(Type.Object({ ...MemoryView.properties, sources: Type.Array(Uuid) })),
    insights_written: Type.Integer({
      minimum: 0,
      maximum: MOST_INSIGHTS,
      description:
        'Three to seven; fewer where the rest is written already, 0 when nothing is new.',
    }),
    earlier_dream: Type.Union([Type.Object({ call_id: Uuid, at: Instant }), Type.Null()], {
      description:
        'Looked at all of these memories before; `insights` are what is left of its own.',
    }),
    memories_analyzed: Type.Integer({ minimum: FEWEST, maximum: LIMITS.vaultDream }),
    method: Type.Enum(['embedded/clusters-1', 'clusters+llm']),
  }),
  availability: withModel('clusters'),
  async run(_input, context) {
    const { now, vault, emit } = context
    const at = now().getTime()
    const { seen, memories } = await vault.newest(ownerOf(context), LIMITS.vaultDream, at)
    if (memories.length < FEWEST)
      throw new ServiceError('not_enough_memories', { found: memories.length, needed: FEWEST })
    emit({ type: 'progress', step: 'memories', note: `${memories.length} to be looked at` })
    const before = await dreamtBefore(context)
    const earlier = before.of(memories)
    const dream = await dreamOf(memories, context)
    if (earlier !== null) return again(earlier, dream, memories, context)
    const told = await toldByModel(memories, context)
    const method = told === null ? ('embedded/clusters-1' as const) : ('clusters+llm' as const)
    const fresh = (told?.insights ?? []).filter((one) => !before.isSaid(one))
    const said = fresh.length > 0 ? fresh : insightsOf(dream, memories, before.isSaid)
    order(seen, context)
    const insights = []
    for (const [place, one] of said.entries()) {
      const looked = place === 0 ? { looked_at: memories.map(({ id }) => id) } : {}
      insights.push(await written(one, { method, ...looked }, before, context))
    }
    return {
      dream_report: {
        summary: told?.summary ?? sentenceOf(dream, memories.length),
        ...report(dream),
        recommended_actions: told?.actions ?? actionsOf(dream, memories, at),
      },
      insights,
      insights_written: insights.length,
      earlier_dream: null,
      memories_analyzed: memories.length,
      method,
    }
  },
})

/** Of two that look at the same memories at once one commits: they are dreamt once. */
function order(seen: number, { stage, caller, callId, now }: ToolContext): void {
  stage.tally({ type: 'ORDER', seen })
  stage.row('vault_orders', {
    agent_id: caller.agentId,
    call_id: callId,
    at: now().toISOString(),
  })
}

/** Nothing is new: what is there is told once more, nothing is written, and nothing is charged. */
function again(
  { callId, at, insights }: EarlierDream,
  dream: Dream,
  memories: readonly Memory[],
  { meter, now }: ToolContext,
) {
  const since = `Nothing is new since the dream of ${new Date(at).toISOString()} (call ${callId}).`
  meter.waive(since)
  return {
    dream_report: {
      summary: `${since} ${sentenceOf(dream, memories.length)}`,
      ...report(dream),
      recommended_actions: actionsOf(dream, memories, now().getTime()),
    },
    insights: insights.filter(({ isLive }) => isLive).map(insightView),
    insights_written: 0,
    earlier_dream: { call_id: callId, at: new Date(at).toISOString() },
    memories_analyzed: memories.length,
    method: 'embedded/clusters-1' as const,
  }
}

async function written(
  insight: Insight,
  how: Readonly<Record<string, unknown>>,
  before: DreamtBefore,
  context: ToolContext,
) {
  const { content, sources, kind, asked } = insight
  const origin = { by: 'dream', ...how, kind, sources, ...(asked === undefined ? {} : { asked }) }
  const type = 'insight' as const
  const draft = { content, type, tags: ['dream'], importance: IMPORTANCE, immortal: false, origin }
  const { decay: _new, ...memory } = await keep(context, draft)
  const old = before.saidOtherwise(insight)
  if (old !== null) archive(context, old.id, 'superseded', memory.id)
  return { ...memory, sources: [...sources] }
}

const report = ({ patterns, contradictions, gaps }: Dream) => ({
  contradictions: contradictions.map(({ first, second, why }) => ({
    first_id: first.id,
    first: short(first.content),
    second_id: second.id,
    second: short(second.content),
    reason: why,
  })),
  patterns: patterns.map(({ keywords, members, centre }) => ({
    keywords: [...keywords],
    memories: members.length,
    example: short(centre.content),
    sources: members.map(({ id }) => id),
  })),
  knowledge_gaps: gaps.map(({ query, times }) => ({ query, times_asked: times })),
})
