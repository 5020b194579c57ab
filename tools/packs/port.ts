import type { MemoryType } from '../../core/decay.ts'
import type { Micros } from '../../core/money.ts'

export interface PackEntry {
  readonly content: string
  readonly type: MemoryType
  readonly tags: readonly string[]
  /** 0 to 1. */
  readonly importance: number
  /** Where it can be checked. */
  readonly source: string
}

export interface Pack {
  readonly slug: string
  readonly name: string
  readonly tagline: string
  readonly category: string
  readonly tags: readonly string[]
  readonly bestFor: readonly string[]
  readonly price: Micros
  readonly entries: readonly PackEntry[]
}

/** Several packs at one price. */
export interface Bundle extends Omit<Pack, 'entries'> {
  /** Slugs of its packs. */
  readonly includes: readonly string[]
}

export interface Packs {
  readonly packs: readonly Pack[]
  readonly bundle: Bundle
  /** Slugs of the packs the agent has. */
  installed(agentId: string): Promise<readonly string[]>
}
