import Type from 'typebox'
import {
  describeMemoryDecay,
  memoryExpiresAt,
  MEMORY_TYPES,
  type MemoryType,
} from '../../../domain/memory-decay.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { quantizeVector } from '../../../domain/vector-quantization.ts'
import type { ToolContext } from '../../define-tool.ts'
import type { VaultMemory } from '../../../domain/vault-memory.ts'

/** A memory to be stored. */
export interface MemoryDraft {
  readonly content: string
  readonly type: MemoryType
  readonly tags: readonly string[]
  readonly importance: number
  readonly immortal: boolean
  readonly namespace?: string
  readonly origin: Readonly<Record<string, unknown>>
}

export const DateTimeField = Type.String({ format: 'date-time' })
export const UuidField = Type.String({ format: 'uuid' })
export const MemoryTypeField = Type.Enum([...MEMORY_TYPES])
export const MemoryDecayStateSchema = Type.Object({
  strength: Type.Number({ minimum: 0, maximum: 1 }),
  age_days: Type.Number({ minimum: 0 }),
  lifetime_days: Type.Union([Type.Number(), Type.Null()]),
  half_life_days: Type.Union([Type.Number(), Type.Null()]),
  expires_at: Type.Union([DateTimeField, Type.Null()]),
  formula: Type.String(),
})
export const MemorySchema = Type.Object({
  id: UuidField,
  content: Type.String(),
  type: MemoryTypeField,
  tags: Type.Array(Type.String()),
  importance: Type.Number({ minimum: 0, maximum: 1 }),
  immortal: Type.Boolean(),
  namespace: Type.String(),
  created_at: DateTimeField,
})
export const SupersededMemorySchema = Type.Object({
  id: UuidField,
  content: Type.String(),
  reason: Type.Enum(['other_numbers', 'opposite', 'asked']),
})

/** Stages a memory of the caller for the commit of the call. */
export async function stageMemory(context: ToolContext, draft: MemoryDraft) {
  const { caller, callId, now, stage, text } = context
  const at = now().getTime()
  const { content, type, immortal, namespace = 'vault' } = draft
  const expiry = memoryExpiresAt({ type, immortal, at })
  const row = {
    id: newUuidV7(at),
    content,
    type,
    tags: [...draft.tags],
    importance: draft.importance,
    immortal,
    namespace,
  }
  stage.row('vault_memories', {
    ...row,
    agent_id: caller.agentId,
    origin: draft.origin,
    vector: quantizeVector(await text.vector(content)),
    call_id: callId,
    at: new Date(at).toISOString(),
    expires_at: expiry === null ? null : new Date(expiry).toISOString(),
  })
  return {
    ...row,
    created_at: new Date(at).toISOString(),
    decay: describeMemoryDecay({ type, immortal, at }, at),
  }
}

/** Stages the replacement of a memory by another one. */
export function stageMemoryReplacement(
  { caller, callId, now, stage }: ToolContext,
  memoryId: string,
  reason: 'superseded' | 'compressed',
  by: string,
): void {
  stage.row('vault_archivals', {
    memory_id: memoryId,
    agent_id: caller.agentId,
    reason,
    by_id: by,
    call_id: callId,
    at: now().toISOString(),
  })
}

export const toMemoryView = (memory: VaultMemory) => ({
  id: memory.id,
  content: memory.content,
  type: memory.type,
  tags: [...memory.tags],
  importance: memory.importance,
  immortal: memory.immortal,
  namespace: memory.namespace,
  created_at: new Date(memory.at).toISOString(),
})

/** Returns the agent of the vault; these tools require a key. */
export const vaultToolCallerAgentId = ({ caller }: Pick<ToolContext, 'caller'>): string =>
  caller.agentId ?? ''
