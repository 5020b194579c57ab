import type { Clock } from '../../core/clock.ts'
import { DAY, MINUTE, utcDay } from '../../core/clock.ts'
import type {
  StemFrequencies,
  HiveSearchCandidate,
} from '../../persistence/hive/hive-full-text-search.ts'
import type { DailyActivityCount, HiveStore } from '../../persistence/hive/hive-store.ts'
import { HIVE_DOMAINS } from './hive-default-topic-domains.ts'
import type { HiveVectorIndex } from './hive-vector-index.ts'

/** Searches the Hive and computes its trends. */

export interface HiveSearchInput {
  readonly text: string
  readonly namespace: string | null
  readonly minConfidence: number
  readonly limit: number
  /** The calling agent, whose private entries are included. */
  readonly agentId: string | null
  /** The reader whose reads count once a UTC day. */
  readonly reader: string
  readonly at: number
  /** Only entries with all words of the text. */
  readonly exact?: boolean
}

export interface RankedHiveEntry {
  readonly id: string
  readonly content: string
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  /** The author's id where public places name it, and for the author. */
  readonly author: string | null
  readonly at: string
  /** False if this reader has read it today already, or wrote it. */
  readonly firstReadToday: boolean
}

export interface HiveTrendReport {
  readonly domains: readonly HiveNamespaceTrend[]
  readonly tools: readonly ToolCallTrend[]
  readonly generatedAt: number
}
export interface HiveNamespaceTrend {
  readonly namespace: string
  readonly reads: number
  readonly writes: number
  /** Agents that have paid with money from outside, and read or wrote here. */
  readonly payers: number
  readonly zScore: number
}
export interface ToolCallTrend {
  readonly slug: string
  readonly calls: number
  readonly payers: number
  readonly zScore: number
}

const HALF_LIFE_DAYS = 30
const TREND_MS = MINUTE
const FREQUENCIES_MS = 5 * MINUTE
const BASE_DAYS = 7
const NEAREST = 30
/** Weight of the word match in the merged score; the embedding match has the rest. */
const WORD_MATCH_WEIGHT = 0.7

/** Creates the search service: ranks matches and computes trends. */
export function createHiveSearchService(
  store: HiveStore,
  clock: Clock,
  vectors: Pick<HiveVectorIndex, 'nearest'> | null = null,
) {
  let trend: { readonly until: number; readonly ready: Promise<HiveTrendReport> } | undefined
  let common: { readonly until: number; readonly ready: Promise<StemFrequencies> } | undefined

  function frequencies(): Promise<StemFrequencies> {
    const now = clock.mono()
    if (common === undefined || now >= common.until) {
      const ready = store.frequencies()
      common = { until: now + FREQUENCIES_MS, ready }
      ready.catch(() => (common = undefined))
    }
    return common.ready
  }

  /** Entries similar in meaning, merged with the word matches; null without embeddings. */
  async function nearby(asked: HiveSearchInput, day: string): Promise<SimilarCandidate[] | null> {
    if (vectors === null || asked.exact === true) return null
    const nearest = await vectors.nearest({ ...asked, limit: NEAREST })
    if (nearest === null) return null
    const ids = nearest.map(({ id }) => id)
    const found = new Map(
      (await store.these({ reader: asked.reader, day }, ids)).map((entry) => [entry.id, entry]),
    )
    return nearest.flatMap(({ id, cosine }) => {
      const entry = found.get(id)
      return entry === undefined ? [] : [{ entry, cosine }]
    })
  }

  return {
    /** The best matches and their number, among the newest five hundred. */
    async search(asked: HiveSearchInput): Promise<{ entries: RankedHiveEntry[]; total: number }> {
      const day = utcDay(asked.at)
      const [{ candidates, total }, near] = await Promise.all([
        frequencies().then((known) =>
          store.search({ ...asked, day, candidates: asked.limit * 3, frequencies: known }),
        ),
        nearby(asked, day),
      ])
      const ranked = rankHiveCandidates(candidates, asked.at)
      const best = near === null ? ranked.map(({ entry }) => entry) : mergeRankings(ranked, near)
      return {
        total: near === null ? total : Math.max(total, best.length),
        entries: best.slice(0, asked.limit).map((entry) => toSearchHit(entry, asked.agentId)),
      }
    },

    /** The last 24 hours against the seven days before; computed once a minute at most. */
    async trending(limit: number): Promise<HiveTrendReport> {
      const now = clock.now()
      if (trend === undefined || now >= trend.until) {
        const ready = store
          .activity(new Date(now))
          .then((activity) => computeHiveTrends(activity, now))
        trend = { until: now + TREND_MS, ready }
        ready.catch(() => (trend = undefined))
      }
      const { domains, tools, generatedAt } = await trend.ready
      return { domains: domains.slice(0, limit), tools: tools.slice(0, limit), generatedAt }
    },

    /**
     * Computes the trends before anybody asks. Nothing is kept of a station without calls, whose first ones would be
     * missing for a minute.
     */
    async warm(): Promise<void> {
      const { tools } = await this.trending(Number.MAX_SAFE_INTEGER)
      if (tools.length === 0) trend = undefined
    },
  }
}

/**
 * Merges the two rankings. Each is scaled to 0 to 1 by its own best and worst, so that a clear
 * match in one is not outvoted by two faint ones, as it would be by rank alone.
 */
function mergeRankings(
  words: readonly ScoredCandidate[],
  near: readonly SimilarCandidate[],
): HiveSearchCandidate[] {
  const scores = new Map<string, { entry: HiveSearchCandidate; score: number }>()
  const add = (entry: HiveSearchCandidate, score: number) =>
    scores.set(entry.id, { entry, score: (scores.get(entry.id)?.score ?? 0) + score })
  const best = words[0]?.score ?? 1
  for (const { entry, score } of words) add(entry, WORD_MATCH_WEIGHT * (score / best))
  const [top, least] = [near[0]?.cosine ?? 1, near.at(-1)?.cosine ?? 0]
  for (const { entry, cosine } of near)
    add(entry, (1 - WORD_MATCH_WEIGHT) * (top === least ? 1 : (cosine - least) / (top - least)))
  return [...scores.values()].sort((a, b) => b.score - a.score).map(({ entry }) => entry)
}
interface ScoredCandidate {
  readonly entry: HiveSearchCandidate
  readonly score: number
}
interface SimilarCandidate {
  readonly entry: HiveSearchCandidate
  readonly cosine: number
}

/** Text match first, then the author's confidence and freshness; none can outweigh the match. */
export function rankHiveCandidates(
  candidates: readonly HiveSearchCandidate[],
  now: number,
): ScoredCandidate[] {
  const scoreOf = ({ rank: match, confidence, at }: HiveSearchCandidate) => {
    const days = Math.max(0, now - at.getTime()) / DAY
    return match * (0.6 + 0.4 * confidence) * (0.7 + 0.3 * 0.5 ** (days / HALF_LIFE_DAYS))
  }
  return candidates
    .map((entry) => ({ entry, score: scoreOf(entry) }))
    .sort((a, b) => b.score - a.score || (a.entry.id < b.entry.id ? 1 : -1))
}

const toSearchHit = (entry: HiveSearchCandidate, agentId: string | null): RankedHiveEntry => ({
  id: entry.id,
  content: entry.content,
  confidence: entry.confidence,
  namespace: entry.namespace,
  agentId: entry.agentId,
  author: entry.agentId === agentId ? agentId : entry.author,
  at: entry.at.toISOString(),
  firstReadToday: !entry.readToday && entry.agentId !== agentId,
})

interface Activity {
  readonly reads: readonly DailyActivityCount[]
  readonly writes: readonly DailyActivityCount[]
  readonly calls: readonly DailyActivityCount[]
  readonly toolPayers: readonly DailyActivityCount[]
  readonly hivePayers: readonly DailyActivityCount[]
}

/**
 * Turns daily counts into trends, most unusual first. What ranks is how many payers there are, and nothing that
 * agents with promotional credits can do (decision 300): calls, reads and writes are told beside it.
 */
export function computeHiveTrends(
  { reads, writes, calls, toolPayers, hivePayers }: Activity,
  generatedAt: number,
): HiveTrendReport {
  const [readDays, writeDays, callDays] = [byName(reads), byName(writes), byName(calls)]
  const [toolPayerDays, hivePayerDays] = [byName(toolPayers), byName(hivePayers)]
  const namespaces = new Set([...HIVE_DOMAINS.map(({ domain }) => domain), ...hivePayerDays.keys()])
  const domains = [...namespaces].map((namespace) => {
    const days = hivePayerDays.get(namespace) ?? NO_ACTIVITY
    return {
      namespace,
      reads: readDays.get(namespace)?.[0] ?? 0,
      writes: writeDays.get(namespace)?.[0] ?? 0,
      payers: days[0] ?? 0,
      zScore: zScore(days),
    }
  })
  const tools = [...toolPayerDays].map(([slug, days]) => ({
    slug,
    calls: callDays.get(slug)?.[0] ?? 0,
    payers: days[0] ?? 0,
    zScore: zScore(days),
  }))
  return {
    domains: domains.sort((a, b) => byPayers(a, b) || compareText(a.namespace, b.namespace)),
    tools: tools.sort((a, b) => byPayers(a, b) || compareText(a.slug, b.slug)),
    generatedAt,
  }
}

interface PayerTrend {
  readonly payers: number
  readonly zScore: number
}
const byPayers = (a: PayerTrend, b: PayerTrend): number =>
  b.zScore - a.zScore || b.payers - a.payers
const compareText = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

const NO_ACTIVITY: readonly number[] = Array<number>(BASE_DAYS + 1).fill(0)

function byName(counts: readonly DailyActivityCount[]): Map<string, number[]> {
  const days = new Map<string, number[]>()
  for (const { name, daysAgo, count } of counts) {
    const series = days.get(name) ?? [...NO_ACTIVITY]
    if (daysAgo >= 0 && daysAgo <= BASE_DAYS) series[daysAgo] = count
    days.set(name, series)
  }
  return days
}

/**
 * Today's deviation from the days before; the standard deviation is at least 1, so that small
 * counts cause no alarm.
 */
function zScore([today = 0, ...before]: readonly number[]): number {
  const mean = before.reduce((total, count) => total + count, 0) / before.length
  const variance = before.reduce((total, count) => total + (count - mean) ** 2, 0) / before.length
  return Math.round(((today - mean) / Math.max(1, Math.sqrt(variance))) * 100) / 100
}
