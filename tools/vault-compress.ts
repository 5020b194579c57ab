import Type from 'typebox'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { VAULT_COMPRESS } from '../core/prices.ts'
import { withModel } from './availability.ts'
import { defineTool, type ToolContext } from './define.ts'
import { archive, DecayView, keep, MemoryView, ownerOf, Uuid } from './vault/keep.ts'
import { digestsOf, heirOf, type Digest } from './vault/order.ts'

const FEWEST = 5

export default defineTool({
  slug: 'vault_compress',
  name: 'Vault Compress',
  category: 'memory',
  description: `Puts the ${LIMITS.vaultCompress} oldest memories that are not immortal into at most ${LIMITS.vaultSummaries} summaries. The sources are archived, stay in the export, and are no answers any more.`,
  tags: ['vault', 'memory', 'summary'],
  useCases: ['Keep a vault small', 'Turn many notes into few', 'Spend fewer tokens on recall'],
  examples: [{}],
  access: 'paid',
  keyRequired: true,
  price: VAULT_COMPRESS,
  effect: 'internal',
  timeoutMs: 45_000,
  input: Type.Object({}, { additionalProperties: false }),
  output: Type.Object({
    summaries: Type.Array(
      Type.Object({
        ...MemoryView.properties,
        decay: DecayView,
        sources: Type.Array(Uuid),
      }),
    ),
    summaries_written: Type.Integer({ minimum: 1, maximum: LIMITS.vaultSummaries }),
    memories_archived: Type.Integer({ minimum: FEWEST }),
    contradictions: Type.Array(
      Type.Object({
        older_id: Uuid,
        older: Type.String(),
        newer_id: Uuid,
        newer: Type.String(),
        reason: Type.Enum(['other_numbers', 'opposite']),
      }),
      { description: 'What the newer memory supersedes, and no summary tells.' },
    ),
    method: Type.Enum(['embedded/clusters-1', 'clusters+llm']),
  }),
  availability: withModel('clusters'),
  async run(_input, context) {
    const { callId, now, stage, vault, emit } = context
    const agentId = ownerOf(context)
    const at = now().getTime()
    const { seen, memories } = await vault.oldest(agentId, LIMITS.vaultCompress, at)
    if (memories.length < FEWEST)
      throw new ServiceError('not_enough_memories', { found: memories.length, needed: FEWEST })
    emit({ type: 'progress', step: 'memories', note: `${memories.length} to be condensed` })
    const { digests, method } = await digestsOf(memories, context)
    // Of two that read the same memories one commits: they are summarised once.
    stage.tally({ type: 'ORDER', seen })
    const order = { agent_id: agentId, call_id: callId, at: new Date(at).toISOString() }
    stage.row('vault_orders', order)
    const summaries = []
    for (const digest of digests) summaries.push(await kept(digest, method, context))
    return {
      summaries,
      summaries_written: summaries.length,
      memories_archived: memories.length,
      contradictions: digests.flatMap(({ left }) =>
        left.map(({ older, newer, why }) => ({
          older_id: older.id,
          older: older.content,
          newer_id: newer.id,
          newer: newer.content,
          reason: why,
        })),
      ),
      method,
    }
  },
})

async function kept({ members, content, left }: Digest, method: string, context: ToolContext) {
  const sources = members.map(({ id }) => id)
  const origin = { by: 'compress', method, sources }
  const summary = await keep(context, { ...heirOf(members), content, immortal: false, origin })
  for (const { id } of members) {
    const superseded = left.some(({ older }) => older.id === id)
    archive(context, id, superseded ? 'superseded' : 'compressed', summary.id)
  }
  return { ...summary, sources }
}
