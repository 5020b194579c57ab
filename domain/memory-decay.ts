import { DAY } from '../core/clock.ts'

/** Lifetime of memories by type, in days. */
export const MEMORY_LIFETIME_DAYS = { fact: 365, insight: 90, context: 7, skill: 180 } as const
export type MemoryType = keyof typeof MEMORY_LIFETIME_DAYS
export const MEMORY_TYPES = Object.keys(MEMORY_LIFETIME_DAYS) as [MemoryType, ...MemoryType[]]

/** Strength at the end of the lifetime. */
const FINAL_STRENGTH = 0.25

export interface DecayingMemory {
  readonly type: MemoryType
  readonly immortal: boolean
  /** Milliseconds. */
  readonly at: number
}

/** The decay of a memory, as responses show it. */
export interface MemoryDecay {
  /** 0 to 1. */
  readonly strength: number
  readonly age_days: number
  readonly lifetime_days: number | null
  readonly half_life_days: number | null
  /** ISO 8601; null for immortal memories. */
  readonly expires_at: string | null
  readonly formula: string
}

/** End of the lifetime in milliseconds; null for immortal memories. */
export const memoryExpiresAt = ({ type, immortal, at }: DecayingMemory): number | null =>
  immortal ? null : at + MEMORY_LIFETIME_DAYS[type] * DAY

/** Strength: 1 at first, 0.25 at the end of the lifetime; the half-life is half the lifetime. */
export function memoryStrength({ type, immortal, at }: DecayingMemory, now: number): number {
  if (immortal) return 1
  return Math.min(1, FINAL_STRENGTH ** (ageOf(at, now) / MEMORY_LIFETIME_DAYS[type]))
}

/** The decay of a memory with its formula. */
export function describeMemoryDecay(memory: DecayingMemory, now: number): MemoryDecay {
  const expiry = memoryExpiresAt(memory)
  const days = MEMORY_LIFETIME_DAYS[memory.type]
  return {
    strength: round(memoryStrength(memory, now)),
    age_days: round(ageOf(memory.at, now)),
    lifetime_days: memory.immortal ? null : days,
    half_life_days: memory.immortal ? null : days / 2,
    expires_at: expiry === null ? null : new Date(expiry).toISOString(),
    formula: memory.immortal
      ? 'strength = 1, for it never fades'
      : `strength = 0.25 ^ (age_days / ${days}); it is forgotten after ${days} days`,
  }
}

const ageOf = (at: number, now: number): number => Math.max(0, now - at) / DAY
const round = (value: number): number => Math.round(value * 1e4) / 1e4
