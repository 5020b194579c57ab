import { SECOND } from '../core/clock.ts'
import type { FinalityWatcher } from '../payments/settlement/finality-watcher.ts'

export interface FinalityJobDeps {
  /** By the name of the chain. */
  readonly watches: ReadonlyMap<string, Pick<FinalityWatcher, 'look'>>
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

const POLL_INTERVAL_MS = 4 * SECOND

/** Looks at each chain every four seconds, one look at a time. Any number of nodes may run it. */
export function startFinalityJob({ watches, log, everyMs = POLL_INTERVAL_MS }: FinalityJobDeps) {
  const running = new Map<string, Promise<void>>()
  /** What could not be read is said once, not each time. */
  const failing = new Set<string>()

  async function round(chain: string, watch: Pick<FinalityWatcher, 'look'>): Promise<void> {
    try {
      await watch.look()
      if (failing.delete(chain)) log(`${chain} can be read for finality again`, null)
    } catch (error) {
      if (!failing.has(chain)) log(`${chain} cannot be read for finality`, error)
      failing.add(chain)
    }
  }

  function lookAround(): void {
    for (const [chain, watch] of watches) {
      if (running.has(chain)) continue
      running.set(
        chain,
        round(chain, watch).finally(() => running.delete(chain)),
      )
    }
  }

  const timer = setInterval(lookAround, everyMs)
  timer.unref()
  return {
    /** Ends after what is under way. */
    async close(): Promise<void> {
      clearInterval(timer)
      await Promise.all(running.values())
    },
  }
}
