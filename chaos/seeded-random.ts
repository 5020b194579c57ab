/** Random numbers that repeat with their seed, so that a failing run can be repeated. */
export interface SeededRandom {
  /** An integer from `low` to `high`, both included. */
  integer(low: number, high: number): number
  pick<T>(from: readonly T[]): T
}

/** The mulberry32 generator. */
export function createSeededRandom(seed: number): SeededRandom {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const integer = (low: number, high: number): number => low + Math.floor(next() * (high - low + 1))
  return {
    integer,
    pick<T>(from: readonly T[]): T {
      return from[integer(0, from.length - 1)] as T
    },
  }
}
