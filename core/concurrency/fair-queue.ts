import type { Clock } from '../clock.ts'

/** A queue that shares values fairly between owners. */

export interface FairLeaseQueueOptions {
  readonly clock: Pick<Clock, 'mono'>
  /** Maximum waiting callers, in total and per owner. */
  readonly maxWaiting: number
  readonly maxWaitingPerOwner: number
  /** Values there are. One is kept free of the owner that holds all others, so that nobody waits for one owner. */
  readonly places: number
  /** Maximum values an owner may hold at a time; all but one when absent (decision 392). */
  readonly maxHeldPerOwner?: number
  /** A use that may take longer, in milliseconds, leaves the last value to shorter ones (decision 485). */
  readonly longMs?: number
  /** The error for callers when the queue is full or their wait times out. */
  readonly createRejection: () => Error
}

export interface FairQueueWaitOptions {
  /** Ends the wait and rejects with its reason. */
  readonly signal?: AbortSignal | undefined
  /** Maximum wait in milliseconds. */
  readonly timeoutMs?: number
  /** How long the value may be held, in milliseconds; zero when absent. */
  readonly holdMs?: number
}

/** A value lent to a caller. The caller must call `release` once. */
export interface FairQueueLease<T> {
  readonly value: T
  release(): void
}

/** Lends values to waiting callers with fair shares per owner. */
export interface FairLeaseQueue<T> {
  readonly waiting: () => number
  /** Owners whose next caller could have a value now. */
  readonly ready: () => number
  /**
   * Waits for a value. Rejects when the queue is full, on timeout, on `rejectNext`, or with the
   * signal's reason.
   */
  wait(owner: string, options?: FairQueueWaitOptions): Promise<FairQueueLease<T>>
  /** Lends a value to the next caller. Returns false when none can have it. */
  offer(value: T): boolean
  /** Rejects the next caller. Returns false when none waits. */
  rejectNext(): boolean
}

interface Waiter<T> {
  readonly since: number
  readonly holdMs: number
  settle(lease: FairQueueLease<T> | null): void
}

/** Waiting callers and held values of one owner. Deleted when it has neither. */
interface Owner<T> {
  readonly waiters: Waiter<T>[]
  held: number
  /**
   * Total hold time of released values, and the sum of the start times of held ones. Milliseconds.
   */
  usedMs: number
  heldSince: number
  /** Time of the last release. */
  endedAt: number
}

/** Who is served next, and what decides it. */
interface Caller<T> {
  readonly name: string
  readonly waiter: Waiter<T>
  readonly held: number
  readonly debt: number
}

/**
 * Creates a fair queue. The next value goes to the owner with the fewest held values, then to the
 * one with the least used and wanted time minus its waiting time. Many or long uses therefore wait
 * behind few or short ones, and no owner starves. Callers of one owner are served in order, except
 * that long ones wait while only the last value is free. A full queue rejects the last caller of
 * the owner with the most waiting callers.
 */
export function createFairLeaseQueue<T>(options: FairLeaseQueueOptions): FairLeaseQueue<T> {
  const {
    clock,
    maxWaiting,
    maxWaitingPerOwner,
    maxHeldPerOwner = Math.max(1, options.places - 1),
    longMs = Infinity,
    createRejection,
  } = options
  const maxLong = Math.max(1, options.places - 1)
  const owners = new Map<string, Owner<T>>()
  let [waiting, longHeld] = [0, 0]

  function ownerOf(name: string): Owner<T> {
    const known = owners.get(name)
    if (known !== undefined) return known
    const made = { waiters: [], held: 0, usedMs: 0, heldSince: 0, endedAt: -Infinity }
    owners.set(name, made)
    return made
  }

  function forgetIdle(name: string): void {
    const owner = owners.get(name)
    if (owner?.held === 0 && owner.waiters.length === 0) owners.delete(name)
  }

  function remove(name: string, waiter: Waiter<T>): void {
    const { waiters } = ownerOf(name)
    waiters.splice(waiters.indexOf(waiter), 1)
    waiting -= 1
    forgetIdle(name)
  }

  /** Priority of a caller, lower first: used and wanted time of its owner minus its waiting time. */
  function debtOf(owner: Owner<T>, { since, holdMs }: Waiter<T>, now: number): number {
    const { held, usedMs, heldSince, endedAt } = owner
    return usedMs + held * now - heldSince + holdMs - (now - Math.max(since, endedAt))
  }

  const isLong = ({ holdMs }: Waiter<T>) => holdMs > longMs

  function nextCaller(maxHeld: number, longFree: number): Caller<T> | null {
    const now = clock.mono()
    let best: Caller<T> | null = null
    for (const [name, owner] of owners) {
      const { held, waiters } = owner
      const waiter = longFree > 0 ? waiters[0] : waiters.find((one) => !isLong(one))
      if (waiter === undefined || held >= maxHeld) continue
      const debt = debtOf(owner, waiter, now)
      if (best === null || held < best.held || (held === best.held && debt < best.debt))
        best = { name, waiter, held, debt }
    }
    return best
  }

  function lease({ name, waiter }: Caller<T>, value: T): FairQueueLease<T> {
    const owner = ownerOf(name)
    const since = clock.mono()
    const long = Number(isLong(waiter))
    owner.held += 1
    owner.heldSince += since
    longHeld += long
    return {
      value,
      release() {
        longHeld -= long
        owner.held -= 1
        owner.heldSince -= since
        owner.endedAt = clock.mono()
        owner.usedMs += owner.endedAt - since
        forgetIdle(name)
      },
    }
  }

  /** Makes room for one more caller of an owner. Returns false when there is none. */
  function makeRoom(name: string): boolean {
    const mine = owners.get(name)?.waiters.length ?? 0
    if (mine >= maxWaitingPerOwner) return false
    if (waiting < maxWaiting) return true
    const [[longest, { waiters }] = [name, { waiters: [] }]] = [...owners].sort(
      ([, one], [, other]) => other.waiters.length - one.waiters.length,
    )
    const last = waiters.at(-1)
    if (last === undefined || waiters.length <= mine + 1) return false
    remove(longest, last)
    last.settle(null)
    return true
  }

  function wait(
    name: string,
    { signal, timeoutMs, holdMs = 0 }: FairQueueWaitOptions = {},
  ): Promise<FairQueueLease<T>> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason as Error)
      if (!makeRoom(name)) return reject(createRejection())
      const stop = () => {
        clearTimeout(timeout)
        signal?.removeEventListener('abort', leave)
      }
      const waiter: Waiter<T> = {
        since: clock.mono(),
        holdMs,
        settle(given) {
          stop()
          if (given === null) reject(createRejection())
          else resolve(given)
        },
      }
      const leave = () => {
        remove(name, waiter)
        stop()
        reject(signal?.aborted === true ? (signal.reason as Error) : createRejection())
      }
      const timeout = timeoutMs === undefined ? undefined : setTimeout(leave, timeoutMs)
      signal?.addEventListener('abort', leave, { once: true })
      ownerOf(name).waiters.push(waiter)
      waiting += 1
    })
  }

  return {
    waiting: () => waiting,
    ready: () =>
      [...owners.values()].filter(
        ({ waiters, held }) => waiters.length > 0 && held < maxHeldPerOwner,
      ).length,
    wait,
    offer(value) {
      const next = nextCaller(maxHeldPerOwner, maxLong - longHeld)
      if (next === null) return false
      const lent = lease(next, value)
      remove(next.name, next.waiter)
      next.waiter.settle(lent)
      return true
    },
    rejectNext() {
      const next = nextCaller(Infinity, Infinity)
      if (next === null) return false
      remove(next.name, next.waiter)
      next.waiter.settle(null)
      return true
    },
  }
}
