import { setImmediate as turn } from 'node:timers/promises'
import type { Clock } from '../core/clock.ts'

/** Those who wait for their turn, each once, in the order in which they came. */
export interface RoundRobinScheduler<L> {
  /** It has a turn in the lap that comes next. */
  enqueue(one: L): void
  /** Gives turns until nobody waits. */
  start(): void
  /** Resolves with the end of the lap that is under way; to false, and at once, where there is none. */
  waitForRoundEnd(): Promise<boolean>
  /** Nobody has a turn any more. */
  stop(): void
}

/** So long everything else waits while turns are given. */
const MAX_SLICE_MS = 0.5
/** Of the time a lap took, so much is left to everything else before the next one. */
const PAUSE_SHARE = 0.5
const MAX_PAUSE_MS = 25

/**
 * Gives turns in laps: who has had its turn and comes again waits for the next lap. `ended` is told of each.
 */
export function createRoundRobinScheduler<L>(
  clock: Clock,
  take: (one: L) => void,
  ended: () => void,
): RoundRobinScheduler<L> {
  let line = new Set<L>()
  /** Those of the lap under way who wait still. */
  let left = new Set<L>()
  let [running, stopped] = [false, false]
  let restUntil = -Infinity
  let waiting: (() => void)[] = []

  async function run(): Promise<void> {
    running = true
    // Those who are handed something in the turn that started it go with the first lap.
    await Promise.resolve()
    while (line.size > 0 && !stopped) {
      const rest = restUntil - clock.mono()
      if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest))
      restUntil = (await lap()) + clock.mono()
      ended()
      wakeAll()
    }
    running = false
  }

  /** Answers for how long to rest. */
  async function lap(): Promise<number> {
    left = line
    line = new Set()
    let took = 0
    let begun = clock.mono()
    for (const one of left) {
      if (stopped) break
      left.delete(one)
      take(one)
      const now = clock.mono()
      if (now - begun < MAX_SLICE_MS) continue
      took += now - begun
      await turn()
      begun = clock.mono()
    }
    took += clock.mono() - begun
    return Math.min(took * PAUSE_SHARE, MAX_PAUSE_MS)
  }

  function wakeAll(): void {
    for (const resolve of waiting.splice(0)) resolve()
  }

  return {
    enqueue(one) {
      if (!left.has(one)) line.add(one)
    },
    start() {
      if (line.size > 0 && !running && !stopped) void run()
    },
    async waitForRoundEnd() {
      if (!running || stopped) return false
      await new Promise<void>((resolve) => waiting.push(resolve))
      return true
    },
    stop() {
      stopped = true
      line.clear()
      left.clear()
      wakeAll()
    },
  }
}
