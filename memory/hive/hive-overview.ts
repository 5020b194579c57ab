import type { Clock } from '../../core/clock.ts'
import { MINUTE, utcDay } from '../../core/clock.ts'
import { createSingleValueTtlCache } from '../../core/concurrency/timed-cache.ts'
import type {
  HiveOverviewStore,
  HiveDigestEntry,
  FeaturedHiveEntry,
  HiveTotals,
} from '../../persistence/hive/hive-overview-store.ts'
import type { HiveWatchMatch, HiveWatchStore } from '../../persistence/hive/hive-watch-store.ts'
import { HIVE_DOMAINS } from './hive-default-topic-domains.ts'

/** The featured entry, digest, watches and figures of the Hive. */

const OVERVIEW_CACHE_TTL_MS = MINUTE

export interface HiveStats {
  readonly totals: HiveTotals
  readonly domains: readonly { domain: string; description: string; entries: number }[]
  readonly featured: readonly FeaturedHiveEntry[]
}

export interface HiveDigest {
  readonly at: number
  readonly featured: readonly (FeaturedHiveEntry & HiveDigestEntry)[]
  /** Without featured entries. */
  readonly entries: readonly HiveDigestEntry[]
}

/** Creates the overview service of the Hive. */
export function createHiveOverview(
  store: HiveOverviewStore,
  watches: HiveWatchStore,
  clock: Clock,
) {
  const totals = createSingleValueTtlCache(clock, OVERVIEW_CACHE_TTL_MS, () => store.totals())
  const chosen = createSingleValueTtlCache(clock, OVERVIEW_CACHE_TTL_MS, () =>
    store.digest(new Date(clock.now())),
  )
  const featured = () => store.featured(new Date(clock.now()))
  /** Read counts, by featured entry. */
  let counts = new Map<string, () => Promise<number>>()

  /** Reads of an entry, counted once a minute at most. */
  const countOf = (id: string) =>
    counts.get(id) ??
    createSingleValueTtlCache(clock, OVERVIEW_CACHE_TTL_MS, () =>
      store.readsOf(id, new Date(clock.now())),
    )

  async function counted(entries: readonly FeaturedHiveEntry[]): Promise<HiveDigest['featured']> {
    counts = new Map(entries.map(({ id }) => [id, countOf(id)]))
    return Promise.all(entries.map(async (one) => ({ ...one, reads: await countOf(one.id)() })))
  }

  return {
    entry: store.entry,
    isWatchable: watches.isWatchable,
    featureFreeAt: async (at: number) =>
      (await store.featureFreeAt(new Date(at)))?.getTime() ?? null,
    takeFeature: async (callId: string, at: number) =>
      (await store.takeFeature(callId, new Date(at)))?.getTime() ?? null,

    hasWatch: watches.has,

    async watchesOf(agentId: string) {
      const rows = await watches.of(agentId)
      return rows.map((row) => ({ ...row, createdAt: row.createdAt.toISOString() }))
    },

    async matchesOf(asked: {
      agentId: string
      watchId: string | null
      after: string | null
      limit: number
      at: number
    }) {
      const after = BigInt(asked.after ?? 0)
      const rows = await watches.matches({ ...asked, after, day: utcDay(asked.at) })
      return rows.map(presentMatch)
    },

    /** Counted once a minute at most; featured entries are read each time. */
    async stats(): Promise<HiveStats> {
      const [sums, now] = await Promise.all([totals(), featured()])
      return { totals: sums, domains: domainsOf(sums), featured: now }
    },

    async digest(): Promise<HiveDigest> {
      const [entries, now] = await Promise.all([chosen(), featured().then(counted)])
      const first = new Set(now.map(({ id }) => id))
      const rest = entries.filter(({ id }) => !first.has(id))
      return { at: clock.now(), featured: now, entries: rest }
    },
  }
}
export type HiveOverview = ReturnType<typeof createHiveOverview>

/** The built-in domains, then every other namespace by size. */
function domainsOf({ namespaces }: HiveTotals): HiveStats['domains'] {
  const known = new Set(HIVE_DOMAINS.map(({ domain }) => domain))
  const others = [...namespaces].filter(([name]) => !known.has(name)).sort((a, b) => b[1] - a[1])
  return [
    ...HIVE_DOMAINS.map((one) => ({ ...one, entries: namespaces.get(one.domain) ?? 0 })),
    ...others.slice(0, 41).map(([domain, entries]) => ({ domain, description: '', entries })),
  ]
}

const presentMatch = (row: HiveWatchMatch) => ({
  cursor: String(row.id),
  watchId: row.watchId,
  matchedAt: row.matchedAt.toISOString(),
  entry: {
    id: row.entryId,
    content: row.content,
    confidence: row.confidence,
    namespace: row.namespace,
    author: row.author,
    at: row.at.toISOString(),
    firstReadToday: !row.readToday,
  },
})
