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
  /** The error for callers when the queue is full or their wait times out. */
  readonly createRejection: () => Error
}

export interface FairQueueWaitOptions {
  /** Ends the wait and rejects with its reason. */
  readonly signal?: AbortSignal | undefined
  /** Maximum wait in milliseconds. */
  readonly timeoutMs?: number
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

/**
 * Creates a fair queue. The next value goes to the owner with the fewest held values, then to the
 * one with the least used time minus its waiting time. Many or long uses therefore wait behind few
 * or short ones, and no owner starves. Callers of one owner are served in order. A full queue
 * rejects the last caller of the owner with the most waiting callers.
 */
export function createFairLeaseQueue<T>(options: FairLeaseQueueOptions): FairLeaseQueue<T> {
  const {
    clock,
    maxWaiting,
    maxWaitingPerOwner,
    maxHeldPerOwner = Math.max(1, options.places - 1),
    createRejection,
  } = options
  const owners = new Map<string, Owner<T>>()
  let waiting = 0

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

  /** Priority of an owner, lower first: used time minus waiting time. */
  function debtOf({ waiters, held, usedMs, heldSince, endedAt }: Owner<T>, now: number): number {
    const waitedSince = Math.max(waiters[0]?.since ?? now, endedAt)
    return usedMs + held * now - heldSince - (now - waitedSince)
  }

  function nextOwner(maxHeld: number): string | null {
    const now = clock.mono()
    let best: { readonly name: string; readonly held: number; readonly debt: number } | null = null
    for (const [name, owner] of owners) {
      const { held, waiters } = owner
      if (waiters.length === 0 || held >= maxHeld) continue
      const debt = debtOf(owner, now)
      if (best === null || held < best.held || (held === best.held && debt < best.debt))
        best = { name, held, debt }
    }
    return best?.name ?? null
  }

  function lease(name: string, value: T): FairQueueLease<T> {
    const owner = ownerOf(name)
    const since = clock.mono()
    owner.held += 1
    owner.heldSince += since
    return {
      value,
      release() {
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
    { signal, timeoutMs }: FairQueueWaitOptions = {},
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

  /** Removes the first caller of an owner. Keeps the owner. */
  function shift(name: string): Waiter<T> | undefined {
    waiting -= 1
    return ownerOf(name).waiters.shift()
  }

  return {
    waiting: () => waiting,
    ready: () =>
      [...owners.values()].filter(
        ({ waiters, held }) => waiters.length > 0 && held < maxHeldPerOwner,
      ).length,
    wait,
    offer(value) {
      const name = nextOwner(maxHeldPerOwner)
      if (name === null) return false
      const waiter = shift(name)
      waiter?.settle(lease(name, value))
      return true
    },
    rejectNext() {
      const name = nextOwner(Infinity)
      if (name === null) return false
      shift(name)?.settle(null)
      forgetIdle(name)
      return true
    },
  }
}
