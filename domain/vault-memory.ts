import type { MemoryType } from './memory-decay.ts'

/** A memory of an agent. */
export interface VaultMemory {
  readonly id: string
  readonly content: string
  readonly type: MemoryType
  readonly tags: readonly string[]
  /** 0 to 1. */
  readonly importance: number
  readonly immortal: boolean
  readonly namespace: string
  readonly origin: Readonly<Record<string, unknown>>
  /** 256 signed bytes; compare with `cosineSimilarity` (domain/vector-quantization.ts). */
  readonly vector: Int8Array
  /** Milliseconds. */
  readonly at: number
}

/** Whether the memory was bought, in a pack or on the marketplace: it is for its buyer only. */
export const isBoughtMemory = ({ origin }: Pick<VaultMemory, 'origin'>): boolean =>
  origin['by'] === 'pack' || origin['by'] === 'listing'

export interface VaultRecallQuery {
  readonly agentId: string
  readonly text: string
  /** Embedding of the text. */
  readonly vector: readonly number[]
  readonly type: MemoryType | null
  readonly tag: string | null
  readonly limit: number
  readonly at: number
  /** How many of the newest memories are compared. Default: `LIMITS.vaultRecallCandidates`. */
  readonly candidateLimit?: number
}

/** A text that an agent is about to store. */
export interface MemoryTextQuery {
  readonly agentId: string
  readonly content: string
  readonly type: MemoryType
  readonly immortal: boolean
}

export interface VaultRecallHit {
  readonly memory: VaultMemory
  /** 0 to 1. */
  readonly similarity: number
  readonly score: number
}

/** An insight of a dream that has not expired, with its current state. */
export interface DreamInsight extends VaultMemory {
  readonly callId: string
  readonly isLive: boolean
}

/** The memory that replaces an archived one. */
export interface ReplacementMemory {
  readonly id: string
  readonly reason: 'superseded' | 'compressed'
}
