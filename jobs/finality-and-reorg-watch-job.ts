import { SECOND } from '../core/clock.ts'
import type { FinalityWatcher } from '../payments/settlement/finality-watcher.ts'

/** Watches all chains for settlements that a reorganization has undone. */

export interface ReorgWatchJobDeps {
  /** By chain name. */
  readonly watches: ReadonlyMap<string, Pick<FinalityWatcher, 'look'>>
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

const POLL_INTERVAL_MS = 4 * SECOND

/**
 * Checks each chain every four seconds, without overlapping checks. Any number of nodes may run it.
 */
export function startReorgWatchJob({
  watches,
  log,
  everyMs = POLL_INTERVAL_MS,
}: ReorgWatchJobDeps) {
  const running = new Map<string, Promise<void>>()
  /** Log an outage once and not at every check. */
  const failing = new Set<string>()

  async function round(chain: string, watch: Pick<FinalityWatcher, 'look'>): Promise<void> {
    try {
      await watch.look()
      if (failing.delete(chain)) log(`${chain} can be read for finality again`, undefined)
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
    /** Stops after the current checks. */
    async close(): Promise<void> {
      clearInterval(timer)
      await Promise.all(running.values())
    },
  }
}
