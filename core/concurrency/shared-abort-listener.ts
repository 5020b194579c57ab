/** Many short-lived listeners of one long-lived abort signal. */

const listenersOf = new WeakMap<AbortSignal, Set<() => void>>()

/**
 * Calls `listener` once when the signal aborts; returns a function that removes it. The signal gets one
 * listener in all, because adding and removing one costs more than the work it is for.
 */
export function addSharedAbortListener(signal: AbortSignal, listener: () => void): () => void {
  const known = listenersOf.get(signal)
  const listeners = known ?? new Set<() => void>()
  if (known === undefined) {
    listenersOf.set(signal, listeners)
    signal.addEventListener('abort', () => listeners.forEach((one) => one()), { once: true })
  }
  listeners.add(listener)
  return () => void listeners.delete(listener)
}
