import type { MemoryType } from '../../../domain/memory-decay.ts'
import type { Micros } from '../../../core/money.ts'

/** Interfaces of memory packs. */

export interface MemoryPackEntry {
  readonly content: string
  readonly type: MemoryType
  readonly tags: readonly string[]
  /** 0 to 1. */
  readonly importance: number
  /** A reference to verify it. */
  readonly source: string
}

export interface MemoryPack {
  readonly slug: string
  readonly name: string
  readonly tagline: string
  readonly category: string
  readonly tags: readonly string[]
  readonly bestFor: readonly string[]
  readonly price: Micros
  readonly entries: readonly MemoryPackEntry[]
}

/** Several packs at one price. */
export interface BundleOfMemoryPacks extends Omit<MemoryPack, 'entries'> {
  /** Slugs of its packs. */
  readonly includes: readonly string[]
}

export interface MemoryPackCatalogue {
  readonly packs: readonly MemoryPack[]
  readonly bundle: BundleOfMemoryPacks
  /** Returns the slugs of the agent's packs. */
  listInstalled(agentId: string): Promise<readonly string[]>
}
