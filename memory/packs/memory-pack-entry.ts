import type { MemoryType } from '../../domain/memory-decay.ts'

/** One entry of a pack: a statement an agent can act on, and its source. */
export interface MemoryPackContentEntry {
  readonly content: string
  readonly type: MemoryType
  readonly tags: readonly string[]
  /** 0 to 1. */
  readonly importance: number
  readonly source: string
}
