/**
 * Lets work that comes in bursts go on one by one, each in a turn of its own of the event loop:
 * whatever else has come in is served between them. While nothing else is there it costs nothing.
 */
export function createYieldQueue(): () => Promise<void> {
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
