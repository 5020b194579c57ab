import { ServiceError } from '../../../core/errors.ts'
import type { ToolPreflightContext } from '../../define-tool.ts'
import type { VaultMemory } from '../../../domain/vault-memory.ts'

/** Returns the caller's live memories by id; throws when one is missing. */
export async function loadOwnMemories(
  ids: readonly string[],
  { caller, now, vault }: Pick<ToolPreflightContext, 'caller' | 'now' | 'vault'>,
): Promise<readonly VaultMemory[]> {
  const agentId = caller.agentId ?? ''
  const memories = await vault.byIds(agentId, ids, now().getTime())
  const missing = ids.find((id) => !memories.some((memory) => memory.id === id))
  if (missing === undefined) return memories
  const replacement = await vault.successorOf(agentId, missing)
  const done = replacement?.reason === 'compressed' ? 'compressed into' : 'superseded by'
  throw new ServiceError('memory_not_found', {
    memory_id: missing,
    ...(replacement !== null && {
      detail: `This memory was ${done} ${replacement.id}, which replaces it.`,
      heir_id: replacement.id,
    }),
  })
}

/** Returns a live memory of the caller; throws when it is missing. */
export async function loadOwnMemory(
  id: string,
  asking: Pick<ToolPreflightContext, 'caller' | 'now' | 'vault'>,
): Promise<VaultMemory> {
  const [memory] = await loadOwnMemories([id.toLowerCase()], asking)
  if (memory === undefined) throw new Error('an existing memory was not returned')
  return memory
}
