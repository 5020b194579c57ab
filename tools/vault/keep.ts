import Type from 'typebox'
import { decayOf, expiryOf, MEMORY_TYPES, type MemoryType } from '../../core/decay.ts'
import { newId } from '../../core/ids.ts'
import { packed } from '../../core/packed.ts'
import type { ToolContext } from '../define.ts'
import type { Memory } from './port.ts'

/** A memory that is about to be kept. */
export interface Draft {
  readonly content: string
  readonly type: MemoryType
  readonly tags: readonly string[]
  readonly importance: number
  readonly immortal: boolean
  readonly namespace?: string
  readonly origin: Readonly<Record<string, unknown>>
}

export const Instant = Type.String({ format: 'date-time' })
export const Uuid = Type.String({ format: 'uuid' })
export const Kind = Type.Enum([...MEMORY_TYPES])
export const DecayView = Type.Object({
  strength: Type.Number({ minimum: 0, maximum: 1 }),
  age_days: Type.Number({ minimum: 0 }),
  lifetime_days: Type.Union([Type.Number(), Type.Null()]),
  half_life_days: Type.Union([Type.Number(), Type.Null()]),
  expires_at: Type.Union([Instant, Type.Null()]),
  formula: Type.String(),
})
export const MemoryView = Type.Object({
  id: Uuid,
  content: Type.String(),
  type: Kind,
  tags: Type.Array(Type.String()),
  importance: Type.Number({ minimum: 0, maximum: 1 }),
  immortal: Type.Boolean(),
  namespace: Type.String(),
  created_at: Instant,
})
export const Superseded = Type.Object({
  id: Uuid,
  content: Type.String(),
  reason: Type.Enum(['other_numbers', 'opposite', 'asked']),
})

/** Stages a memory of the caller; it is there when the call is. */
export async function keep(context: ToolContext, draft: Draft) {
  const { caller, callId, now, stage, text } = context
  const at = now().getTime()
  const { content, type, immortal, namespace = 'vault' } = draft
  const expiry = expiryOf({ type, immortal, at })
  const row = {
    id: newId(at),
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
    vector: packed(await text.vector(content)),
    call_id: callId,
    at: new Date(at).toISOString(),
    expires_at: expiry === null ? null : new Date(expiry).toISOString(),
  })
  return {
    ...row,
    created_at: new Date(at).toISOString(),
    decay: decayOf({ type, immortal, at }, at),
  }
}

/** Stages that another memory stands for this one from now on. */
export function archive(
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

export const present = (memory: Memory) => ({
  id: memory.id,
  content: memory.content,
  type: memory.type,
  tags: [...memory.tags],
  importance: memory.importance,
  immortal: memory.immortal,
  namespace: memory.namespace,
  created_at: new Date(memory.at).toISOString(),
})

/** The agent whose vault it is: these tools need a key. */
export const ownerOf = ({ caller }: Pick<ToolContext, 'caller'>): string => caller.agentId ?? ''
