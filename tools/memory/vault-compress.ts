import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { VAULT_COMPRESS_PRICE } from '../../domain/pricing.ts'
import { llmOptionalToolAvailability } from '../tool-availability.ts'
import { defineTool, type ToolContext } from '../define-tool.ts'
import {
  stageMemoryReplacement,
  MemoryDecayStateSchema,
  stageMemory,
  MemorySchema,
  vaultToolCallerAgentId,
  UuidField,
} from './vault/memory-schemas-and-staging.ts'
import {
  consolidateMemories,
  mergedMemoryFields,
  type ConsolidatedMemoryGroup,
} from './vault/consolidate-memories.ts'

/** The tool `vault-compress`: merges old memories into summaries. */

const MIN_MEMORIES = 5

export default defineTool({
  slug: 'vault_compress',
  name: 'Vault Compress',
  category: 'memory',
  description: `Compresses the ${LIMITS.vaultCompress} oldest memories that are not immortal into at most ${LIMITS.vaultSummaries} summaries. The sources are archived, stay in the export, and are no longer found.`,
  tags: ['vault', 'memory', 'summary'],
  useCases: ['Keep a vault small', 'Turn many notes into few', 'Spend fewer tokens on recall'],
  examples: [{}],
  access: 'paid',
  keyRequired: true,
  price: VAULT_COMPRESS_PRICE,
  effect: 'internal',
  timeoutMs: 45_000,
  input: Type.Object({}, { additionalProperties: false }),
  output: Type.Object({
    summaries: Type.Array(
      Type.Object({
        ...MemorySchema.properties,
        decay: MemoryDecayStateSchema,
        sources: Type.Array(UuidField),
      }),
    ),
    summaries_written: Type.Integer({ minimum: 1, maximum: LIMITS.vaultSummaries }),
    memories_archived: Type.Integer({ minimum: MIN_MEMORIES }),
    contradictions: Type.Array(
      Type.Object({
        older_id: UuidField,
        older: Type.String(),
        newer_id: UuidField,
        newer: Type.String(),
        reason: Type.Enum(['other_numbers', 'opposite']),
      }),
      { description: 'Superseded by the newer memory and left out of the summaries.' },
    ),
    method: Type.Enum(['embedded/clusters-1', 'clusters+llm']),
  }),
  availability: llmOptionalToolAvailability('clusters'),
  async run(_input, context) {
    const { callId, now, stage, vault, emit } = context
    const agentId = vaultToolCallerAgentId(context)
    const at = now().getTime()
    const { seen, memories } = await vault.oldest(agentId, LIMITS.vaultCompress, at)
    if (memories.length < MIN_MEMORIES)
      throw new ServiceError('not_enough_memories', {
        found: memories.length,
        needed: MIN_MEMORIES,
      })
    emit({ type: 'progress', step: 'memories', note: `${memories.length} to be condensed` })
    const { digests, method } = await consolidateMemories(memories, context)
    // Of two concurrent calls on the same memories one commits, so they are summarised once.
    stage.changeEntitlement({ type: 'ORDER', seen })
    const order = { agent_id: agentId, call_id: callId, at: new Date(at).toISOString() }
    stage.row('vault_consolidations', order)
    const summaries = []
    for (const digest of digests) summaries.push(await stageSummary(digest, method, context))
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

async function stageSummary(
  { members, content, left }: ConsolidatedMemoryGroup,
  method: string,
  context: ToolContext,
) {
  const sources = members.map(({ id }) => id)
  const origin = { by: 'compress', method, sources }
  const summary = await stageMemory(context, {
    ...mergedMemoryFields(members),
    content,
    immortal: false,
    origin,
  })
  for (const { id } of members) {
    const superseded = left.some(({ older }) => older.id === id)
    stageMemoryReplacement(context, id, superseded ? 'superseded' : 'compressed', summary.id)
  }
  return { ...summary, sources }
}
