import type { Clock } from '../clock.ts'

export interface FairQueueOptions {
  readonly clock: Pick<Clock, 'mono'>
  /** Callers that may wait, in all and of one owner. */
  readonly maxWaiting: number
  readonly maxWaitingPerOwner: number
  /** Values that one owner may hold at a time; no bound where it is left out. */
  readonly maxHeldPerOwner?: number
  /** The error of a caller that finds the queue full or waits in vain. */
  readonly createRejection: () => Error
}

export interface FairQueueWaitOptions {
  /** Ends the wait with its reason. */
  readonly signal?: AbortSignal
  /** Ends the wait with the refusal of the queue, in milliseconds. */
  readonly timeoutMs?: number
}

/** A value that was handed to a caller. `release` is called once, when the caller has done with it. */
export interface FairQueueLease<T> {
  readonly value: T
  release(): void
}

/** Hands out values to callers that wait, in fair shares of their owners. */
export interface FairQueue<T> {
  readonly waiting: () => number
  /**
   * Waits for a value. Rejects with the refusal when the queue is full, when the patience ends or when
   * `refuseNext` is called, and with the reason of the signal.
   */
  wait(owner: string, options?: FairQueueWaitOptions): Promise<FairQueueLease<T>>
  /** Hands a value to the caller whose turn it is; false where nobody may have it. */
  offer(value: T): boolean
  /** Refuses the caller whose turn it is; false where nobody waits. */
  rejectNext(): boolean
}

interface Waiter<T> {
  readonly since: number
  settle(lease: FairQueueLease<T> | null): void
}

/** What an owner waits for and holds. Forgotten when both are nothing. */
interface Owner<T> {
  readonly waiters: Waiter<T>[]
  held: number
  /** Milliseconds for which it has held values that it released, and the sum of the times it took the others. */
  usedMs: number
  heldSince: number
  /** When it last released one. */
  endedAt: number
}

/**
 * The next value goes to the owner that holds the fewest; among those to the one that has used the
 * least time, less the time that it has waited since its last turn. So an owner with many or long turns
 * waits behind one with few or short turns, and waiting makes up for any use: nobody starves. Callers
 * of one owner are served in their order. A full queue turns the last caller of the owner away that
 * has the most of them.
 */
export function createFairQueue<T>(options: FairQueueOptions): FairQueue<T> {
  const {
    clock,
    maxWaiting,
    maxWaitingPerOwner,
    maxHeldPerOwner = Infinity,
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

  /** The smaller, the sooner: what the owner has used, less what it has waited. */
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

  /** Makes room for one caller more of an owner; false where there is none. */
  function makeRoom(name: string): boolean {
    const mine = owners.get(name)?.waiters.length ?? 0
    if (mine >= maxWaitingPerOwner) return false
    if (waiting < maxWaiting) return true
    const [[crowd, { waiters }] = [name, { waiters: [] }]] = [...owners].sort(
      ([, one], [, other]) => other.waiters.length - one.waiters.length,
    )
    const last = waiters.at(-1)
    if (last === undefined || waiters.length <= mine + 1) return false
    remove(crowd, last)
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
        clearTimeout(patience)
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
      const patience = timeoutMs === undefined ? undefined : setTimeout(leave, timeoutMs)
      signal?.addEventListener('abort', leave, { once: true })
      ownerOf(name).waiters.push(waiter)
      waiting += 1
    })
  }

  /** Takes the first caller of an owner out of the queue; the owner is remembered. */
  function shift(name: string): Waiter<T> | undefined {
    waiting -= 1
    return ownerOf(name).waiters.shift()
  }

  return {
    waiting: () => waiting,
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
