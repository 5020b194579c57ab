import { setImmediate as turn } from 'node:timers/promises'
import type { Clock } from '../core/clock.ts'

/** A queue in which each member has one turn per round. */
export interface RoundRobinScheduler<L> {
  /** Adds a member to the next round. */
  enqueue(one: L): void
  /** Runs rounds until the queue is empty. */
  start(): void
  /** Resolves to true at the end of the current round; to false at once when none runs. */
  waitForRoundEnd(): Promise<boolean>
  /** Clears the queue and ends all rounds. */
  stop(): void
}

/** Milliseconds of turns before yielding to other work. */
const MAX_SLICE_MS = 0.5
/** Pause after a round, as a share of its duration. */
const PAUSE_SHARE = 0.5
const MAX_PAUSE_MS = 25

/**
 * Creates a scheduler. A member enqueued after its turn waits for the next round. `ended` runs
 * after each round.
 */
export function createRoundRobinScheduler<L>(
  clock: Clock,
  take: (one: L) => void,
  ended: () => void,
): RoundRobinScheduler<L> {
  let queue = new Set<L>()
  /** Members of the current round that have not had their turn. */
  let currentRound = new Set<L>()
  let [running, stopped] = [false, false]
  let restUntil = -Infinity
  let waiting: (() => void)[] = []

  async function run(): Promise<void> {
    running = true
    // Members enqueued in the same tick join the first round.
    await Promise.resolve()
    while (queue.size > 0 && !stopped) {
      const rest = restUntil - clock.mono()
      if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest))
      restUntil = (await runRound()) + clock.mono()
      ended()
      wakeAll()
    }
    running = false
  }

  /** Runs one round. Returns the pause after it in milliseconds. */
  async function runRound(): Promise<number> {
    currentRound = queue
    queue = new Set()
    let took = 0
    let begun = clock.mono()
    for (const one of currentRound) {
      if (stopped) break
      currentRound.delete(one)
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
      if (!currentRound.has(one)) queue.add(one)
    },
    start() {
      if (queue.size > 0 && !running && !stopped) void run()
    },
    async waitForRoundEnd() {
      if (!running || stopped) return false
      await new Promise<void>((resolve) => waiting.push(resolve))
      return true
    },
    stop() {
      stopped = true
      queue.clear()
      currentRound.clear()
      wakeAll()
    },
  }
}
