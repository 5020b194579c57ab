import Type from 'typebox'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { VAULT_SHARE_PRICE } from '../../domain/pricing.ts'
import { SINGLE_LINE_TEXT_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool, type ToolPreflightContext } from '../define-tool.ts'
import { DateTimeField, UuidField } from './vault/memory-schemas-and-staging.ts'
import { loadOwnMemory } from './vault/load-own-memories.ts'
import { isBoughtMemory, type VaultMemory } from '../../domain/vault-memory.ts'

/** The tool `vault-share`: sends a memory to another agent. */

interface Input {
  readonly entry_id: string
  readonly to_agent_id: string
}

export default defineTool({
  slug: 'vault_share',
  name: 'Vault Share',
  category: 'memory',
  description:
    'Gives another agent a copy of a memory. The copy belongs to that agent: later changes of the memory do not affect it.',
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
  price: VAULT_SHARE_PRICE,
  effect: 'internal',
  actsOnOthers: true,
  timeoutMs: 5_000,
  input: Type.Object(
    {
      entry_id: UuidField,
      to_agent_id: UuidField,
      memo: Type.Optional(
        Type.String({ minLength: 1, maxLength: 500, pattern: SINGLE_LINE_TEXT_PATTERN }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    share_id: UuidField,
    entry_id: UuidField,
    to_agent_id: UuidField,
    status: Type.Enum(['shared']),
    snapshot: Type.String(),
    created_at: DateTimeField,
  }),
  async preflight(input, context) {
    await loadShareableMemory(input, context)
  },
  async run(input, context) {
    const { caller, callId, now, stage } = context
    const memory = await loadShareableMemory(input, context)
    const at = now().getTime()
    const [shareId, createdAt] = [newUuidV7(at), new Date(at).toISOString()]
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

/** Throws for another agent's memory, a bought one, and an unknown recipient. */
async function loadShareableMemory(
  { entry_id, to_agent_id }: Input,
  context: ToolPreflightContext,
): Promise<VaultMemory> {
  const { caller, directory } = context
  const to = to_agent_id.toLowerCase()
  if (to === caller.agentId) throw invalidInputError('/to_agent_id', 'must be another agent')
  const memory = await loadOwnMemory(entry_id, context)
  if (isBoughtMemory(memory)) throw new ServiceError('pack_content', { memory_id: entry_id })
  if (!(await directory.has(to))) throw new ServiceError('agent_not_found', { agent_id: to })
  return memory
}
