import type { AggregateStore } from '../persistence/aggregates.ts'
import type { SnapshotCache } from '../persistence/snapshot-cache.ts'
import { hydrate, type Aggregate } from './aggregate.ts'

interface Wish {
  readonly id: string
  readonly distrustCache: boolean
  readonly resolve: (aggregate: Aggregate) => void
  readonly reject: (error: unknown) => void
}

/** Hydration, one query for everything asked for in the same tick; the cache first, where trusted. */
export function loader(store: Pick<AggregateStore, 'load'>, cache: SnapshotCache | null) {
  let wishes: Wish[] = []

  async function serve(batch: Wish[]): Promise<void> {
    const trusted = batch.filter((wish) => !wish.distrustCache).map((wish) => wish.id)
    const cached = cache === null || trusted.length === 0 ? new Map() : await cache.get(trusted)
    const rest = batch.filter((wish) => wish.distrustCache || !cached.has(wish.id))
    const stored = rest.length === 0 ? new Map() : await store.load(rest.map((wish) => wish.id))
    for (const wish of batch) {
      const from = wish.distrustCache ? stored : cached.has(wish.id) ? cached : stored
      try {
        wish.resolve(hydrate(from.get(wish.id)))
      } catch (error) {
        wish.reject(error)
      }
    }
  }

  return (id: string, distrustCache: boolean): Promise<Aggregate> =>
    new Promise((resolve, reject) => {
      if (wishes.length === 0) {
        setImmediate(() => {
          const batch = wishes
          wishes = []
          serve(batch).catch((error: unknown) => {
            for (const wish of batch) wish.reject(error)
          })
        })
      }
      wishes.push({ id, distrustCache, resolve, reject })
    })
}
