import { DAY } from '../../core/clock.ts'
import { publicHiveAuthorIdSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The featured Hive entry and the figures of the Hive. */

export interface HiveEntryRecord {
  readonly id: string
  readonly content: string
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  /** The author's id where public places name it. */
  readonly author: string | null
  readonly isPublic: boolean
  readonly at: Date
}

export interface FeaturedHiveEntry extends HiveEntryRecord {
  readonly until: Date
}

export interface HiveDigestEntry extends HiveEntryRecord {
  readonly reads: number
}

export interface HiveTotals {
  readonly entries: number
  readonly publicEntries: number
  readonly reads: number
  /** The mean confidence of public entries; null without entries. */
  readonly quality: number | null
  /** Public entries by namespace. */
  readonly namespaces: ReadonlyMap<string, number>
}

/**
 * The call that reserved the featured place must be charged by then, or the place is free again.
 */
const FEATURE_RESERVATION_MS = 60_000
const DIGEST_HALF_SIZE = 10

/** Reads the overview and reserves the featured place. */
export function createHiveOverviewStore(sql: Sql) {
  return {
    async entry(id: string): Promise<HiveEntryRecord | null> {
      const [row] = await sql<
        EntryRow[]
      >`select ${entryColumns(sql)} from hive_entries e where e.id = ${id}`
      return row === undefined ? null : fromRow(row)
    },

    async featureFreeAt(at: Date): Promise<Date | null> {
      const [row] = await sql<{ until: Date }[]>`
        select taken_until as until from hive_feature_slot where taken_until > ${at}`
      return row?.until ?? null
    },

    /**
     * Reserves the place for one of concurrent calls; resolves to when it is free again for the
     * others.
     */
    async takeFeature(callId: string, at: Date): Promise<Date | null> {
      const reserved = new Date(at.getTime() + FEATURE_RESERVATION_MS)
      const taken = await sql`
        update hive_feature_slot set call_id = ${callId}, taken_until = ${reserved}
         where taken_until is null or taken_until <= ${at}`
      if (taken.count > 0) return null
      const [row] = await sql<{ until: Date }[]>`
        select taken_until as until from hive_feature_slot`
      return row?.until ?? reserved
    },

    /** Currently featured entries, latest first. */
    async featured(at: Date): Promise<FeaturedHiveEntry[]> {
      const rows = await sql<(EntryRow & { until: Date })[]>`
        select ${entryColumns(sql)}, f.ends_at as until
          from hive_features f join hive_entries e on e.id = f.entry_id
         where f.ends_at > ${at} and f.at <= ${at} and e.is_public order by f.at desc limit 5`
      return rows.map((row) => ({ ...fromRow(row), until: row.until }))
    },

    /** The most read public entries of the last 24 hours, then the newest and most confident. */
    async digest(at: Date): Promise<HiveDigestEntry[]> {
      const rows = await sql<(EntryRow & { reads: number })[]>`
        with read as (
          select entry_id as id, count(distinct reader)::int as reads from hive_reads
           where at > ${dayBefore(at)} and at <= ${at} and not ghost group by 1
           order by 2 desc, 1 limit ${DIGEST_HALF_SIZE * 3}),
        wrote as (
          select id, confidence, at from hive_entries
           where at > ${dayBefore(at)} and at <= ${at} and is_public order by at desc limit 500),
        fresh as (select id from wrote order by confidence desc, at desc limit ${DIGEST_HALF_SIZE}),
        chosen as (select id from read union select id from fresh)
        select ${entryColumns(sql)}, coalesce(r.reads, 0) as reads
          from chosen c join hive_entries e on e.id = c.id left join read r on r.id = c.id
         where e.is_public order by reads desc, e.confidence desc, e.at desc limit ${DIGEST_HALF_SIZE * 2}`
      return rows.map((row) => ({ ...fromRow(row), reads: row.reads }))
    },

    /** Readers of an entry in the last 24 hours. */
    async readsOf(id: string, at: Date): Promise<number> {
      const [row] = await sql<{ reads: number }[]>`
        select count(distinct reader)::int as reads from hive_reads
         where entry_id = ${id} and at > ${dayBefore(at)} and at <= ${at} and not ghost`
      return row?.reads ?? 0
    },

    async totals(): Promise<HiveTotals> {
      const [sums] = await sql<{ entries: number; reads: number; quality: number | null }[]>`
        select (select count(*) from hive_entries)::int as entries,
               (select count(*) from hive_reads where not ghost)::int as reads,
               (select avg(confidence) from hive_entries where is_public)::float8 as quality`
      const spaces = await sql<{ namespace: string; entries: number }[]>`
        select namespace, count(*)::int as entries from hive_entries where is_public group by 1`
      return {
        entries: sums?.entries ?? 0,
        publicEntries: spaces.reduce((sum, { entries }) => sum + entries, 0),
        reads: sums?.reads ?? 0,
        quality: sums?.quality ?? null,
        namespaces: new Map(spaces.map(({ namespace, entries }) => [namespace, entries])),
      }
    },
  }
}
export type HiveOverviewStore = ReturnType<typeof createHiveOverviewStore>

const dayBefore = (at: Date): Date => new Date(at.getTime() - DAY)

const entryColumns = (sql: Sql) =>
  sql`e.id, e.content, e.confidence, e.namespace, e.agent_id, ${publicHiveAuthorIdSql(sql)} as author,
    e.is_public, e.at`

interface EntryRow {
  id: string
  content: string
  confidence: number
  namespace: string
  agent_id: string
  author: string | null
  is_public: boolean
  at: Date
}

const fromRow = (row: EntryRow): HiveEntryRecord => ({
  id: row.id,
  content: row.content,
  confidence: row.confidence,
  namespace: row.namespace,
  agentId: row.agent_id,
  author: row.author,
  isPublic: row.is_public,
  at: row.at,
})
