import Type from 'typebox'
import { invalid, ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { VAULT_SHARE } from '../core/prices.ts'
import { LABEL } from '../core/said.ts'
import { defineTool, type Asking } from './define.ts'
import { Instant, Uuid } from './vault/keep.ts'
import { ownMemory } from './vault/own.ts'
import type { Memory } from './vault/port.ts'

interface Input {
  readonly entry_id: string
  readonly to_agent_id: string
}

export default defineTool({
  slug: 'vault_share',
  name: 'Vault Share',
  category: 'memory',
  description:
    'Gives another agent a copy of a memory as it is now. The copy is its own for good: nothing that happens to the memory later changes it.',
  tags: ['vault', 'sharing'],
  useCases: ['Brief another agent', 'Hand over a finding'],
  examples: [
    {
      entry_id: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c50',
      to_agent_id: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c51',
    },
  ],
  access: 'paid',
  keyRequired: true,
  unlisted: true,
  price: VAULT_SHARE,
  effect: 'internal',
  actsOnOthers: true,
  timeoutMs: 5_000,
  input: Type.Object(
    {
      entry_id: Uuid,
      to_agent_id: Uuid,
      memo: Type.Optional(Type.String({ minLength: 1, maxLength: 500, pattern: LABEL })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    share_id: Uuid,
    entry_id: Uuid,
    to_agent_id: Uuid,
    status: Type.Enum(['shared']),
    snapshot: Type.String(),
    created_at: Instant,
  }),
  async preflight(input, context) {
    await shareable(input, context)
  },
  async run(input, context) {
    const { caller, callId, now, stage } = context
    const memory = await shareable(input, context)
    const at = now().getTime()
    const [shareId, createdAt] = [newId(at), new Date(at).toISOString()]
    const to = input.to_agent_id.toLowerCase()
    stage.row('vault_shares', {
      id: shareId,
      memory_id: memory.id,
      from_agent: caller.agentId,
      to_agent: to,
      content: memory.content,
      type: memory.type,
      tags: [...memory.tags],
      importance: memory.importance,
      remembered_at: new Date(memory.at).toISOString(),
      memo: input.memo ?? null,
      call_id: callId,
      at: createdAt,
    })
    return {
      share_id: shareId,
      entry_id: memory.id,
      to_agent_id: to,
      status: 'shared' as const,
      snapshot: memory.content,
      created_at: createdAt,
    }
  },
})

/** Refuses a memory that is not the caller's own or was bought, and a recipient who is not there. */
async function shareable({ entry_id, to_agent_id }: Input, context: Asking): Promise<Memory> {
  const { caller, directory } = context
  const to = to_agent_id.toLowerCase()
  if (to === caller.agentId) throw invalid('/to_agent_id', 'must be another agent')
  const memory = await ownMemory(entry_id, context)
  if (memory.origin['by'] === 'pack')
    throw new ServiceError('pack_content', { memory_id: entry_id })
  if (!(await directory.has(to))) throw new ServiceError('agent_not_found', { agent_id: to })
  return memory
}
