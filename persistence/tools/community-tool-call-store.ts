import { toUsdc, type Micros } from '../../core/money.ts'
import { asMicros } from '../../core/money.ts'
import { COMMUNITY_TOOL_QUALITY_THRESHOLDS } from '../../domain/community-tool-record.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { rollUpStatistics } from '../statistics/roll-up-statistics.ts'

/** Calls that were sent to builders: rows for their commits, refunds, and the figures of tools. */

/** A call of a community tool, charged or refunded. */
export interface CommunityToolCallRecord {
  readonly callId: string
  readonly slug: string
  readonly builderId: string
  readonly payer: string
  readonly errorCode: string | null
  readonly errorDetail: string | null
  readonly ms: number
  readonly price: Micros
  readonly share: Micros
  readonly counted: boolean
  /** The builder has refused the input of another agent. */
  readonly refused: boolean
  readonly at: number
}

export const toCommunityToolCallRow = (call: CommunityToolCallRecord) => ({
  call_id: call.callId,
  slug: call.slug,
  builder_id: call.builderId,
  payer: call.payer,
  ok: call.errorCode === null,
  error_code: call.errorCode,
  error_detail: call.errorDetail,
  ms: call.ms,
  price_micros: Number(call.price),
  share_micros: Number(call.share),
  counted: call.counted,
  refused: call.refused,
  at: new Date(call.at).toISOString(),
})

/** Calls of a tool over some days. */
export interface CommunityToolCallFigures {
  readonly calls: number
  readonly successes: number
  readonly p50Ms: number
  readonly p95Ms: number
  readonly refunds: number
  readonly payers: number
  readonly schemaFailures: number
}

/** What a builder earned with a tool; null for its other ones. */
export interface BuilderToolEarnings {
  readonly slug: string | null
  readonly calls: number
  readonly failures: number
  readonly earned: number
}

/** A refund, as its builder sees it. */
export interface CommunityToolRefundSample {
  readonly slug: string
  readonly callId: string
  readonly code: string
  readonly detail: string
  readonly ms: number
  readonly at: Date
}

/** Calls of a tool that decide about its listing. */
export interface CommunityToolListingFigures {
  readonly since: Date
  readonly calls: number
  readonly successes: number
  readonly payers: number
  readonly failingPayers: number
}

const WINDOW_DAYS = 7
/** A round of another node is younger than this; nodes try every 20 seconds. */
const ROUND_SECONDS = 15
/** More payers than a listing asks for are not counted. */
const COUNTED_PAYERS = 100
const SAMPLES = 5

export function createCommunityToolCallStore(sql: Sql) {
  return {
    /** Records a refunded call. Repeating it changes nothing. */
    async addRefund(call: CommunityToolCallRecord): Promise<void> {
      await sql`insert into community_tool_calls ${sql(toCommunityToolCallRow(call))}
                on conflict do nothing`
    },

    /**
     * Counted calls of the last seven days, by whole hours, of each tool since its endpoint was proven, if it has at
     * least `calls` of them, with the refusals that count (decision 386). Empty if another node has just asked: one of
     * all nodes judges at a time. Its cost depends on the number of tools, and on stored calls only for those that fail
     * more than half of them, or refuse inputs of several payers.
     */
    async takeRound(calls: number): Promise<Map<string, CommunityToolListingFigures>> {
      const taken = await sql`
        update statistics_cursor set judged_at = now()
         where judged_at < now() - make_interval(secs => ${ROUND_SECONDS})`
      if (taken.count === 0) return new Map()
      await rollUpStatistics(sql)
      const rows = await sql<(CommunityToolListingFigures & { slug: string })[]>`
        select t.slug, t.measured_from as since, h.calls + r.calls as calls, h.ok as successes,
               (select count(*)::int from (
                 select from community_tool_payers p where p.slug = t.slug and p.since = t.measured_from
                    and p.last_at > now() - make_interval(days => ${WINDOW_DAYS}) limit ${COUNTED_PAYERS}) x) as payers,
               r.payers + (select count(distinct c.payer)::int from community_tool_calls c
                 where 2 * h.ok < h.calls + r.calls and c.slug = t.slug and c.counted and not c.ok
                   and c.at >= t.measured_from
                   and c.at > now() - make_interval(days => ${WINDOW_DAYS})) as "failingPayers"
          from community_tools t cross join lateral (
            select coalesce(sum(calls), 0)::int as calls, coalesce(sum(ok), 0)::int as ok from community_tool_hours h
             where h.slug = t.slug and h.since = t.measured_from
               and h.hour > now() - make_interval(days => ${WINDOW_DAYS})) h
          cross join lateral ${refusals(sql)} r
         where t.state <> 'retired' and h.calls + r.calls >= ${calls}`
      return new Map(rows.map(({ slug, ...row }) => [slug, row]))
    },

    /**
     * Counted calls of the last seven days, of each tool since its endpoint was proven; with `builderId` of the
     * tools of one builder.
     */
    async figures(
      builderId: string | null = null,
    ): Promise<Map<string, CommunityToolCallFigures & { readonly since: Date }>> {
      const rows = await sql<FigureRow[]>`
        select t.slug, t.measured_from as since, count(*)::int + r.calls as calls,
               count(*) filter (where c.ok)::int as successes,
               count(*) filter (where not c.ok)::int + r.calls as refunds,
               count(*) filter (where c.error_code = 'tool_output_invalid')::int as schema_failures,
               count(distinct c.payer) filter (where c.ok)::int as payers,
               coalesce(percentile_disc(0.5) within group (order by c.ms) filter (where c.ok), 0)::int as p50,
               coalesce(percentile_disc(0.95) within group (order by c.ms) filter (where c.ok), 0)::int as p95
          from community_tool_calls c join community_tools t using (slug) cross join lateral ${refusals(sql)} r
         where c.counted and c.at > now() - make_interval(days => ${WINDOW_DAYS})
           and ${builderId === null ? sql`true` : sql`c.builder_id = ${builderId}`}
           and c.at >= t.measured_from and t.state <> 'retired'
         group by t.slug, t.measured_from, r.calls`
      return new Map(
        rows.map(({ slug, p50, p95, schema_failures: schemaFailures, ...row }) => [
          slug,
          { ...row, p50Ms: p50, p95Ms: p95, schemaFailures },
        ]),
      )
    },

    /** All calls of a builder's tools, and what they earned: of each of the slugs, and of all others in one row. */
    async earningsOf(builderId: string, slugs: readonly string[]): Promise<BuilderToolEarnings[]> {
      const rows = await sql<(Omit<BuilderToolEarnings, 'earned'> & { earned: bigint })[]>`
        select case when slug = any(${[...slugs]}::text[]) then slug end as slug, count(*) filter (where ok)::int as calls,
               count(*) filter (where not ok)::int as failures,
               coalesce(sum(share_micros) filter (where ok), 0)::bigint as earned
          from community_tool_calls where builder_id = ${builderId} group by 1`
      return rows.map(({ earned, ...row }) => ({ ...row, earned: toUsdc(asMicros(earned)) }))
    },

    /** The newest refunds of tools of a builder. */
    async failuresOf(
      builderId: string,
      slugs: readonly string[],
    ): Promise<CommunityToolRefundSample[]> {
      return sql<CommunityToolRefundSample[]>`
        select slug, call_id as "callId", error_code as code, coalesce(error_detail, '') as detail, ms, at
          from (select *, row_number() over (partition by slug order by at desc) as n
                  from community_tool_calls
                 where builder_id = ${builderId} and slug = any(${[...slugs]}::text[]) and not ok
                   and at > now() - make_interval(days => ${WINDOW_DAYS})) c
         where n <= ${SAMPLES} order by slug, at desc`
    },
  }
}
/** Of the tool `t`: its refusals that count, and of how many payers. */
const refusals = (sql: Sql) =>
  sql`counted_refusals(t.slug, greatest(t.measured_from, now() - make_interval(days => ${WINDOW_DAYS})), ${COMMUNITY_TOOL_QUALITY_THRESHOLDS.refusedPayers})`

export type CommunityToolCallStore = ReturnType<typeof createCommunityToolCallStore>

interface FigureRow {
  slug: string
  since: Date
  calls: number
  successes: number
  refunds: number
  schema_failures: number
  payers: number
  p50: number
  p95: number
}
