import { MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { PayableApiStore } from '../../persistence/x402/payable-api-store.ts'
import { createFailureTransitionLog, createPollingLoop, type PollingLoop } from '../polling-loop.ts'
import type { EndpointProber } from './payable-endpoint-prober.ts'

/** Probes the listed APIs whose owners have proved their origin, each once an hour. */

export interface ListedApiProbeJobDeps {
  readonly store: Pick<PayableApiStore, 'takeDue' | 'nextDue' | 'postpone' | 'recordProbe'>
  readonly prober: EndpointProber
  readonly clock: Pick<Clock, 'now'>
  readonly log: (message: string, error: unknown) => void
}

const PROBES_AT_ONCE = 8
const SCAN_EVERY_MS = 5 * SECOND

/** Any node takes what is due; the database keeps two from taking the same listing. */
export function createListedApiProbeJob(deps: ListedApiProbeJobDeps): PollingLoop {
  const { store, prober, clock, log } = deps

  async function probe({ apiId, url }: { apiId: string; url: string }): Promise<void> {
    try {
      const found = await prober.probeHourly(prober.parse(url))
      await store.recordProbe(apiId, found.probe)
    } catch (error) {
      // Another listed address of the host was probed within the minute. What may not be probed any more waits its hour.
      if (!(error instanceof ServiceError)) throw error
      const { retry_after: seconds } = error.details
      if (seconds !== undefined)
        await store.postpone(apiId, new Date(clock.now() + seconds * SECOND))
    }
  }

  return createPollingLoop({
    everyMs: SCAN_EVERY_MS,
    idleMs: MINUTE,
    async work(stopping) {
      let due = await store.takeDue(new Date(clock.now()), PROBES_AT_ONCE)
      while (due.length > 0 && !stopping()) {
        await Promise.all(due.map(probe))
        due = await store.takeDue(new Date(clock.now()), PROBES_AT_ONCE)
      }
      const next = await store.nextDue()
      return next === null ? MINUTE : next.getTime() - clock.now()
    },
    log: createFailureTransitionLog(log, 'listed APIs not probed', 'listed APIs probed again'),
  })
}
