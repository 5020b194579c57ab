interface PendingLoad<T, R> {
  readonly item: T
  readonly resolve: (result: R | PromiseLike<R>) => void
  readonly reject: (error: unknown) => void
}

/**
 * Asks for many at once: whoever comes while `askConcurrently` askings are under way waits for the next one,
 * and nobody waits for a timer. `ask` answers in the order of its items, each with a result or the
 * promise of one; when it fails it fails for all of them.
 */
export function createBatchLoader<T, R>(
  ask: (items: readonly T[]) => Promise<readonly (R | PromiseLike<R>)[]>,
  { most, atOnce = 1 }: { readonly most: number; readonly atOnce?: number },
): (item: T) => Promise<R> {
  const waiting: PendingLoad<T, R>[] = []
  let [running, due] = [0, false]

  /** Not before this turn is over: what is asked in the same one goes together. */
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
