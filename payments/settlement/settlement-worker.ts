import { setMaxListeners } from 'node:events'
import type { ActorRuntime } from '../../actors/actor-runtime.ts'
import { decodeStoredPayment } from '../../chain/onchain-payment-types.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import { createBatchLoader } from '../../core/concurrency/batch-loader.ts'
import type {
  OpenSettlement,
  SettlementQueries,
} from '../../persistence/payments/settlement-queries.ts'
import type { SettlementRail, SettlementAndPayment } from './settlement-rail.ts'

/** Drives open settlements through their rails, with backoff. */

export interface SettlementWorkerDeps {
  readonly actors: Pick<ActorRuntime, 'wake'>
  readonly store: Pick<SettlementQueries, 'proven'>
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  /** By the ledger's name of the chain. */
  readonly rails: ReadonlyMap<string, SettlementRail>
  readonly signal: AbortSignal
}

/** Rows per statement. */
const READ_BATCH = { most: 64 }
const BACKOFF_MS = { first: 250, most: 30 * SECOND }
const OPEN_MONEY_STATES: ReadonlySet<string> = new Set(['due', 'submitted', 'unknown'])

/** Works on each settlement once at a time on this node; the pause grows with each attempt. */
export function createSettlementWorker({
  actors,
  store,
  clock,
  log,
  rails,
  signal,
}: SettlementWorkerDeps) {
  // Every payment in progress listens to it.
  setMaxListeners(0, signal)
  const running = new Map<string, Promise<void>>()
  const resting = new Map<string, { until: number; tries: number }>()
  const read = createBatchLoader(store.proven, READ_BATCH)

  /** Works on one settlement until it has settled, is lost, or has to wait. Never rejects. */
  function work(id: string): Promise<void> {
    const under = running.get(id)
    if (under !== undefined) return under
    const done = advance(id)
      .catch((error: unknown) => {
        log(`settlement ${id} waits`, error)
        rest(id)
      })
      .finally(() => running.delete(id))
    running.set(id, done)
    return done
  }

  async function advance(id: string): Promise<void> {
    while (!signal.aborted) {
      const next = await workOf(id)
      const rail = next === null ? undefined : rails.get(next.chain)
      if (next === null) break
      // A rail that is off must not take the place of settlements that can proceed.
      if (rail === undefined) return rest(id)
      const then = await rail.advance(next)
      if (then === 'later') return rest(id)
      if (then === 'done') break
      if (then !== 'on') return rest(id, then.restMs)
    }
    resting.delete(id)
  }

  /** Null if there is nothing to do. A payer may not have absorbed the delivery of a call yet. */
  async function workOf(id: string): Promise<SettlementAndPayment | null> {
    let found = await read(id)
    if (found?.money === 'claimed') {
      await actors.wake(found.payer, 'payer')
      found = await read(id)
    }
    if (found === null || !isOpen(found)) return null
    return { ...found, payment: decodeStoredPayment(found.proof) }
  }

  const isOpen = ({ money, lookAt }: OpenSettlement): boolean =>
    OPEN_MONEY_STATES.has(money) || (money === 'lost' && lookAt !== null && lookAt <= clock.now())

  const isResting = (id: string): boolean => (resting.get(id)?.until ?? 0) > clock.mono()

  function rest(id: string, leastMs = 0): void {
    const tries = (resting.get(id)?.tries ?? 0) + 1
    const wait = Math.min(BACKOFF_MS.first * 2 ** (tries - 1), BACKOFF_MS.most)
    resting.set(id, { until: clock.mono() + Math.max(wait, leastMs), tries })
  }

  return {
    work,
    isResting,
    /** Ends its pause: the next request works on it at once. */
    wake: (id: string) => void resting.delete(id),
    /** Settlements not to start now: paused or in progress. */
    busy: (): string[] => [...[...resting.keys()].filter(isResting), ...running.keys()],
    ended: () => Promise.allSettled(running.values()),
  }
}
