import type { AggregateStore } from '../persistence/aggregate-store.ts'
import type { SnapshotCache } from '../persistence/redis/redis-aggregate-snapshot-cache.ts'
import { hydrateAggregate, type LoadedAggregateActors } from './loaded-aggregate-state.ts'

/** Loads aggregates in batches, from the cache or from Postgres. */

interface PendingAggregateLoad {
  readonly id: string
  readonly bypassCache: boolean
  readonly resolve: (aggregate: LoadedAggregateActors) => void
  readonly reject: (error: unknown) => void
}

/** Loads aggregates: one query for all requests of a tick, after the cache where it is trusted. */
export function createAggregateLoader(
  store: Pick<AggregateStore, 'load'>,
  cache: SnapshotCache | null,
) {
  let pendingLoads: PendingAggregateLoad[] = []

  async function serve(batch: PendingAggregateLoad[]): Promise<void> {
    const trusted = batch.filter((load) => !load.bypassCache).map((load) => load.id)
    const cached = cache === null || trusted.length === 0 ? new Map() : await cache.get(trusted)
    const rest = batch.filter((load) => load.bypassCache || !cached.has(load.id))
    const stored = rest.length === 0 ? new Map() : await store.load(rest.map((load) => load.id))
    for (const load of batch) {
      const from = load.bypassCache ? stored : cached.has(load.id) ? cached : stored
      try {
        load.resolve(hydrateAggregate(from.get(load.id)))
      } catch (error) {
        load.reject(error)
      }
    }
  }

  return (id: string, bypassCache: boolean): Promise<LoadedAggregateActors> =>
    new Promise((resolve, reject) => {
      if (pendingLoads.length === 0) {
        setImmediate(() => {
          const batch = pendingLoads
          pendingLoads = []
          serve(batch).catch((error: unknown) => {
            for (const load of batch) load.reject(error)
          })
        })
      }
      pendingLoads.push({ id, bypassCache, resolve, reject })
    })
}
