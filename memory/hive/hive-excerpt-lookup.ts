import type { Clock } from '../../core/clock.ts'
import { MINUTE } from '../../core/clock.ts'
import type { RankedHiveEntry, HiveSearchInput } from './hive-search-and-trends.ts'

/** An entry that is added to the result of a call. */
export interface HiveExcerptHit {
  readonly id: string
  readonly excerpt: string
  readonly namespace: string
  readonly confidence: number
  readonly agent_id: string | null
  readonly created_at: string
}

const LOOKUP_CACHE_TTL_MS = MINUTE
const MAX_CACHED_LOOKUPS = 2_000
const MAX_CONCURRENT_LOOKUPS = 4
const MAX_HITS = 3
const EXCERPT = 160

type Search = (asked: HiveSearchInput) => Promise<{ entries: readonly RankedHiveEntry[] }>

/**
 * Searches public entries that contain all words of a text. Cached for a minute, with few
 * concurrent searches; above the limit it returns nothing.
 */
export function createHiveExcerptLookup(search: Search, clock: Clock) {
  const kept = new Map<
    string,
    { readonly until: number; readonly notes: Promise<HiveExcerptHit[]> }
  >()
  let running = 0

  async function look(text: string): Promise<HiveExcerptHit[]> {
    running += 1
    try {
      const { entries } = await search({
        text,
        namespace: null,
        minConfidence: 0,
        limit: MAX_HITS,
        agentId: null,
        reader: '',
        at: clock.now(),
        exact: true,
      })
      return entries.map(noteOf)
    } finally {
      running -= 1
    }
  }

  return (text: string): Promise<readonly HiveExcerptHit[]> => {
    // Words only: connecting signs would be read as a phrase, and "or" as an alternative.
    const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
    const key = words.filter((word) => word !== 'or').join(' ')
    const known = kept.get(key)
    const now = clock.mono()
    if (known !== undefined && now < known.until) return known.notes
    if (running >= MAX_CONCURRENT_LOOKUPS) return Promise.resolve([])
    const notes = look(key)
    notes.catch(() => kept.delete(key))
    kept.delete(key)
    kept.set(key, { until: now + LOOKUP_CACHE_TTL_MS, notes })
    const [oldest] = kept.keys()
    if (kept.size > MAX_CACHED_LOOKUPS && oldest !== undefined) kept.delete(oldest)
    return notes
  }
}

const noteOf = ({
  id,
  content,
  namespace,
  confidence,
  author,
  at,
}: RankedHiveEntry): HiveExcerptHit => ({
  id,
  excerpt: content.length <= EXCERPT ? content : `${content.slice(0, EXCERPT - 1)}…`,
  namespace,
  confidence,
  agent_id: author,
  created_at: at,
})
