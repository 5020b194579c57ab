import Type from 'typebox'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { VAULT_PROMOTE_PRICE } from '../../domain/pricing.ts'
import { defineTool, type ToolPreflightContext } from '../define-tool.ts'
import { reserveHiveText } from './hive/reserve-hive-text.ts'
import { DateTimeField, UuidField } from './vault/memory-schemas-and-staging.ts'
import { loadOwnMemory } from './vault/load-own-memories.ts'
import { isBoughtMemory, type VaultMemory } from '../../domain/vault-memory.ts'

/** The tool `vault-promote`: publishes a memory in the Hive. */

/** Length of a text in the Hive, in characters. */
const [MIN_CONTENT_CHARS, MAX_CONTENT_CHARS] = [50, 2_000]

export default defineTool({
  slug: 'vault_promote',
  name: 'Vault Promote',
  category: 'memory',
  description:
    'Copies a memory of your own into the public Hive, where it earns royalties. The memory itself stays private and unchanged.',
  tags: ['vault', 'hive', 'sharing'],
  useCases: ['Publish what has proven right', 'Earn from private knowledge'],
  examples: [{ memory_id: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c50', namespace: 'base' }],
  access: 'paid',
  keyRequired: true,
  price: VAULT_PROMOTE_PRICE,
  effect: 'internal',
  actsOnOthers: true,
  timeoutMs: 5_000,
  normalise(body) {
    const { entry_id, ...rest } = body
    return entry_id === undefined || 'memory_id' in rest ? body : { ...rest, memory_id: entry_id }
  },
  input: Type.Object(
    {
      memory_id: Type.String({ format: 'uuid', description: '`entry_id` is an alias.' }),
      namespace: Type.Optional(
        Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9:_.-]{0,63}$', default: 'general' }),
      ),
      confidence: Type.Optional(
        Type.Number({ minimum: 0, maximum: 1, description: 'Defaults to its importance.' }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    entry_id: UuidField,
    memory_id: UuidField,
    namespace: Type.String(),
    status: Type.Enum(['promoted']),
    provenance: Type.Object({
      memory_id: UuidField,
      author_agent_id: UuidField,
      remembered_at: DateTimeField,
      origin: Type.String(),
    }),
    created_at: DateTimeField,
  }),
  async preflight({ memory_id }, context) {
    await loadPromotableMemory(memory_id, context)
  },
  async run({ memory_id, namespace = 'general', confidence }, context) {
    const { caller, callId, ghost, now, stage } = context
    const memory = await loadPromotableMemory(memory_id, context)
    const at = now().getTime()
    if (!(await context.vault.reservePromotion(memory.id, callId, at)))
      throw new ServiceError('already_promoted', { memory_id: memory.id })
    const createdAt = new Date(at).toISOString()
    const claim = await reserveHiveText(
      context,
      { isPublic: true, content: memory.content },
      newUuidV7(at),
    )
    const { id: entryId } = claim
    if (claim.state === 'written')
      throw new ServiceError('already_promoted', { memory_id: memory.id, entry_id: entryId })
    stage.row('hive_entries', {
      id: entryId,
      agent_id: caller.agentId,
      content: memory.content,
      namespace: namespace.toLowerCase(),
      tags: [...memory.tags],
      confidence: confidence ?? memory.importance,
      is_public: true,
      call_id: callId,
      at: createdAt,
      ghost: ghost !== 'off',
    })
    stage.row('vault_promotions', {
      memory_id: memory.id,
      entry_id: entryId,
      agent_id: caller.agentId,
      call_id: callId,
      at: createdAt,
    })
    return {
      entry_id: entryId,
      memory_id: memory.id,
      namespace: namespace.toLowerCase(),
      status: 'promoted' as const,
      provenance: {
        memory_id: memory.id,
        author_agent_id: caller.agentId ?? '',
        remembered_at: new Date(memory.at).toISOString(),
        origin: String(memory.origin['by']),
      },
      created_at: createdAt,
    }
  },
})

/** Throws for another agent's memory, a bought one, and one that the Hive would refuse. */
async function loadPromotableMemory(
  id: string,
  asking: ToolPreflightContext,
): Promise<VaultMemory> {
  const memory = await loadOwnMemory(id, asking)
  if (isBoughtMemory(memory)) throw new ServiceError('pack_content', { memory_id: id })
  if (await asking.vault.isPromoted(memory.id))
    throw new ServiceError('already_promoted', { memory_id: memory.id })
  const { length } = memory.content.trim()
  if (length < MIN_CONTENT_CHARS || memory.content.length > MAX_CONTENT_CHARS)
    throw invalidInputError(
      '/memory_id',
      `must be of a memory of ${MIN_CONTENT_CHARS} to ${MAX_CONTENT_CHARS} characters`,
    )
  return memory
}
