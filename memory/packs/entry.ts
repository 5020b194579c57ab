import type { MemoryType } from '../../core/decay.ts'

/** What a pack teaches: one statement an agent can act on, and where it can be checked. */
export interface Entry {
  readonly content: string
  readonly type: MemoryType
  readonly tags: readonly string[]
  /** 0 to 1. */
  readonly importance: number
  readonly source: string
}
