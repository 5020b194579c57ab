import type { MemoryType } from '../../domain/memory-decay.ts'

/** What a pack teaches: one statement an agent can act on, and where it can be checked. */
export interface PackContentEntry {
  readonly content: string
  readonly type: MemoryType
  readonly tags: readonly string[]
  /** 0 to 1. */
  readonly importance: number
  readonly source: string
}
