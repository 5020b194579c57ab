/**
 * Spreads bursts of work over event loop turns, so that other work runs in between. Without a burst
 * it adds no delay.
 */
export function createEventLoopYieldQueue(): () => Promise<void> {
  const waiting: (() => void)[] = []

  function next(): void {
    waiting.shift()?.()
    if (waiting.length > 0) setImmediate(next)
  }

  return () =>
    new Promise((resolve) => {
      if (waiting.push(resolve) === 1) setImmediate(next)
    })
}
