import Type from 'typebox'
import { invalid, ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { VAULT_PROMOTE } from '../core/prices.ts'
import { defineTool, type Asking } from './define.ts'
import { claimText } from './hive/claim-text.ts'
import { Instant, Uuid } from './vault/keep.ts'
import { ownMemory } from './vault/own.ts'
import type { Memory } from './vault/port.ts'

/** The length of a text that the Hive takes, in characters. */
const [SHORTEST, LONGEST] = [50, 2_000]

export default defineTool({
  slug: 'vault_promote',
  name: 'Vault Promote',
  category: 'memory',
  description:
    'Copies a memory of your own into the public Hive, where it earns royalties. The memory stays private and as it is.',
  tags: ['vault', 'hive', 'sharing'],
  useCases: ['Publish what has proven right', 'Earn from private knowledge'],
  examples: [{ memory_id: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c50', namespace: 'base' }],
  access: 'paid',
  keyRequired: true,
  price: VAULT_PROMOTE,
  effect: 'internal',
  actsOnOthers: true,
  timeoutMs: 5_000,
  normalise(body) {
    const { entry_id, ...rest } = body
    return entry_id === undefined || 'memory_id' in rest ? body : { ...rest, memory_id: entry_id }
  },
  input: Type.Object(
    {
      memory_id: Type.String({ format: 'uuid', description: '`entry_id` means the same.' }),
      namespace: Type.Optional(
        Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9:_.-]{0,63}$', default: 'general' }),
      ),
      confidence: Type.Optional(
        Type.Number({ minimum: 0, maximum: 1, description: 'Its importance, when absent.' }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    entry_id: Uuid,
    memory_id: Uuid,
    namespace: Type.String(),
    status: Type.Enum(['promoted']),
    provenance: Type.Object({
      memory_id: Uuid,
      author_agent_id: Uuid,
      remembered_at: Instant,
      origin: Type.String(),
    }),
    created_at: Instant,
  }),
  async preflight({ memory_id }, context) {
    await promotable(memory_id, context)
  },
  async run({ memory_id, namespace = 'general', confidence }, context) {
    const { caller, callId, now, stage } = context
    const memory = await promotable(memory_id, context)
    const at = now().getTime()
    if (!(await context.vault.takePromotion(memory.id, callId, at)))
      throw new ServiceError('already_promoted', { memory_id: memory.id })
    const createdAt = new Date(at).toISOString()
    const claim = await claimText(context, { isPublic: true, content: memory.content }, newId(at))
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

/** Refuses what is not the caller's, what was bought, and what the Hive would not take. */
async function promotable(id: string, asking: Asking): Promise<Memory> {
  const memory = await ownMemory(id, asking)
  if (memory.origin['by'] === 'pack') throw new ServiceError('pack_content', { memory_id: id })
  if (await asking.vault.isPromoted(memory.id))
    throw new ServiceError('already_promoted', { memory_id: memory.id })
  const { length } = memory.content.trim()
  if (length < SHORTEST || memory.content.length > LONGEST)
    throw invalid('/memory_id', `must be of a memory of ${SHORTEST} to ${LONGEST} characters`)
  return memory
}
