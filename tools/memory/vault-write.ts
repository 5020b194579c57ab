import Type from 'typebox'
import { LIMITS } from '../../core/limits.ts'
import { VAULT_WRITE_PRICE } from '../../domain/pricing.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool, type ToolPreflightContext, type ToolContext } from '../define-tool.ts'
import { compareMemoriesForContradiction } from './vault/memory-text-contradiction.ts'
import {
  stageMemoryReplacement,
  MemoryDecayStateSchema,
  DateTimeField,
  stageMemory,
  MemoryTypeField,
  MemorySchema,
  vaultToolCallerAgentId,
  SupersededMemorySchema,
  toMemoryView,
  UuidField,
} from './vault/memory-schemas-and-staging.ts'
import { loadOwnMemories } from './vault/load-own-memories.ts'
import { describeMemoryDecay, type MemoryType } from '../../domain/memory-decay.ts'
import type { VaultMemory } from '../../domain/vault-memory.ts'

/** The tool `vault-write`: stores a memory. */

const MAX_COMPARED_MEMORIES = 12
const MAX_SUPERSEDED = 10

export default defineTool({
  slug: 'vault_write',
  name: 'Vault Write',
  category: 'memory',
  description: `Stores a private memory. Facts live 365 days, insights 90, context 7, skills 180, immortal ones permanently. The first ${LIMITS.vaultFreeWrites} writes of an agent are free.`,
  tags: ['vault', 'memory', 'private'],
  useCases: ['Remember across sessions', 'Keep what a task has taught', 'Replace what is outdated'],
  examples: [
    {
      content: 'The staging API allows 20 requests a second; above that it answers 429.',
      type: 'fact',
      tags: ['api', 'limits'],
      importance: 0.8,
    },
  ],
  access: 'paid',
  keyRequired: true,
  price: VAULT_WRITE_PRICE,
  allowance: { calls: LIMITS.vaultFreeWrites },
  effect: 'internal',
  timeoutMs: 8_000,
  input: Type.Object(
    {
      content: Type.String({
        minLength: 1,
        maxLength: LIMITS.vaultContent,
        pattern: NOT_BLANK_PATTERN,
      }),
      type: MemoryTypeField,
      tags: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 40, pattern: NOT_BLANK_PATTERN }), {
          maxItems: 20,
        }),
      ),
      importance: Type.Optional(Type.Number({ minimum: 0, maximum: 1, default: 0.5 })),
      immortal: Type.Optional(Type.Boolean({ default: false })),
      supersedes: Type.Optional(
        Type.Array(UuidField, {
          maxItems: MAX_SUPERSEDED,
          description: 'Your memories that this one replaces.',
        }),
      ),
      keep_contradicted: Type.Optional(
        Type.Boolean({
          default: false,
          description: 'Keep contradicting memories beside this one.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    pack: Type.Object({
      id: UuidField,
      content: Type.String(),
      type: MemoryTypeField,
      tags: MemorySchema.properties.tags,
      importance: Type.Number(),
      immortal: Type.Boolean(),
      namespace: Type.String(),
      created_at: DateTimeField,
    }),
    status: Type.Enum(['stored', 'duplicate'], {
      description: 'You have a memory with the same text; it is returned and nothing is written.',
    }),
    duplicate_of: Type.Optional(UuidField),
    decay: MemoryDecayStateSchema,
    superseded: Type.Array(SupersededMemorySchema, {
      description: 'They stay stored and exported, but are no longer recalled.',
    }),
    free_tier_remaining: Type.Optional(Type.Integer({ minimum: 0 })),
  }),
  async preflight({ supersedes = [] }, context) {
    await loadSupersededMemories(supersedes, context)
  },
  async run(input, context) {
    const { content, type, tags = [], importance = 0.5, immortal = false } = input
    const superseded = await loadSupersededMemories(input.supersedes ?? [], context)
    const earlier = superseded.length > 0 ? null : await findSameMemory(input, context)
    if (earlier !== null) return toDuplicateAnswer(earlier, context)
    const found =
      input.keep_contradicted === true ? [] : await findContradictedMemories(content, context)
    const old = [
      ...superseded.map((memory) => ({ memory, reason: 'asked' as const })),
      ...found.filter(({ memory }) => !superseded.some(({ id }) => id === memory.id)),
    ]
    const origin = { by: 'write', supersedes: old.map(({ memory }) => memory.id) }
    const { decay, ...pack } = await stageMemory(context, {
      content,
      type,
      tags,
      importance,
      immortal,
      origin,
    })
    for (const { memory } of old) stageMemoryReplacement(context, memory.id, 'superseded', pack.id)
    return {
      pack,
      status: 'stored' as const,
      decay,
      superseded: old.map(({ memory, reason }) => ({
        id: memory.id,
        content: memory.content,
        reason,
      })),
    }
  },
})

/** Returns the caller's live memories by id; throws when one is missing. */
async function loadSupersededMemories(
  ids: readonly string[],
  context: ToolPreflightContext,
): Promise<readonly VaultMemory[]> {
  if (ids.length === 0) return []
  const wanted = [...new Set(ids.map((id) => id.toLowerCase()))]
  return loadOwnMemories(wanted, context)
}

/** A live memory with the same text that lasts as long. */
const findSameMemory = (
  { content, type, immortal = false }: { content: string; type: MemoryType; immortal?: boolean },
  context: ToolContext,
): Promise<VaultMemory | null> =>
  context.vault.withText(
    { agentId: vaultToolCallerAgentId(context), content, type, immortal },
    context.now().getTime(),
  )

/** The earlier memory, without a charge (decision 413). */
function toDuplicateAnswer(memory: VaultMemory, { meter, now }: ToolContext) {
  meter.waive('a memory of yours has the same text')
  return {
    pack: toMemoryView(memory),
    status: 'duplicate' as const,
    duplicate_of: memory.id,
    decay: describeMemoryDecay(memory, now().getTime()),
    superseded: [],
  }
}

/** Returns the memories that contradict the new one. Permanent memories are never among them. */
async function findContradictedMemories(content: string, context: ToolContext) {
  const { text, vault, now } = context
  const near = await vault.recall({
    agentId: vaultToolCallerAgentId(context),
    text: content,
    vector: await text.vector(content),
    type: null,
    tag: null,
    limit: MAX_COMPARED_MEMORIES,
    candidateLimit: LIMITS.vaultCompared,
    at: now().getTime(),
  })
  const found = []
  for (const { memory } of near) {
    if (memory.immortal) continue
    const reason = await compareMemoriesForContradiction(text, memory.content, content)
    if (reason !== null) found.push({ memory, reason })
  }
  return found
}
