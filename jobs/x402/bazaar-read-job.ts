import { MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { BazaarStore } from '../../persistence/x402/foreign-bazaar-listing-store.ts'
import type { ReadBazaar } from '../../providers/x402/bazaar-client.ts'
import { createFailureTransitionLog, createPollingLoop, type PollingLoop } from '../polling-loop.ts'

/** Reads the other Bazaars of `X402_BAZAARS` once an hour. */

export interface BazaarReadJobDeps {
  readonly bazaars: readonly string[]
  readonly store: BazaarStore
  readonly read: ReadBazaar
  readonly clock: Pick<Clock, 'now'>
  readonly log: (message: string, error: unknown) => void
  /** Aborts a running read. */
  readonly stopped: AbortSignal
}

const SCAN_EVERY_MS = 30 * SECOND

/** Any node reads what is due. A Bazaar that does not answer keeps its listing for a while. */
export function createBazaarReadJob(deps: BazaarReadJobDeps): PollingLoop {
  const { bazaars, store, read, clock, log, stopped } = deps

  async function refresh(bazaar: string): Promise<void> {
    try {
      const resources = await read(bazaar, stopped)
      await store.replace(bazaar, resources, new Date(clock.now()))
    } catch (error) {
      if (stopped.aborted) return
      if (!(error instanceof ServiceError)) throw error
      log(`the Bazaar ${bazaar} was not read`, error)
    }
  }

  return createPollingLoop({
    everyMs: SCAN_EVERY_MS,
    idleMs: MINUTE,
    async work() {
      if (bazaars.length === 0) return MINUTE
      const due = await store.takeDue(bazaars, new Date(clock.now()))
      for (const bazaar of due) await refresh(bazaar)
      return MINUTE
    },
    log: createFailureTransitionLog(log, 'Bazaars not read', 'Bazaars read again'),
  })
}
