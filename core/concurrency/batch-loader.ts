/** Combines concurrent requests into batches. */

interface PendingLoad<T, R> {
  readonly item: T
  readonly resolve: (result: R | PromiseLike<R>) => void
  readonly reject: (error: unknown) => void
}

/**
 * Batches requests without a delay timer: while `atOnce` batches run, later items wait for the next
 * one. `ask` returns a result or promise per item, in order; if it rejects, every item of the batch
 * rejects.
 */
export function createBatchLoader<T, R>(
  ask: (items: readonly T[]) => Promise<readonly (R | PromiseLike<R>)[]>,
  { most, atOnce = 1 }: { readonly most: number; readonly atOnce?: number },
): (item: T) => Promise<R> {
  const waiting: PendingLoad<T, R>[] = []
  let [running, due] = [0, false]

  /** Waits for the end of the tick, so that its items share a batch. */
  function soon(): void {
    if (due || running >= atOnce || waiting.length === 0) return
    due = true
    queueMicrotask(() => {
      due = false
      running += 1
      void answer(waiting.splice(0, most)).finally(() => {
        running -= 1
        soon()
      })
      soon()
    })
  }

  async function answer(some: readonly PendingLoad<T, R>[]): Promise<void> {
    try {
      const results = await ask(some.map(({ item }) => item))
      some.forEach(({ resolve }, at) => resolve(results[at] as R | PromiseLike<R>))
    } catch (error) {
      for (const { reject } of some) reject(error)
    }
  }

  return (item) =>
    new Promise<R>((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      soon()
    })
}
