import { CALLER_ERROR_CODES } from '../../core/errors.ts'
import { asMicros, type Micros } from '../../core/money.ts'
import type {
  BackpackUsageStats,
  DailyUsageStats,
  AgentScheduleUsageStats,
  ToolCoUsage,
  AgentToolUsageStats,
} from '../../domain/agent-usage-stats-types.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Usage statistics of one agent, from the call log and the ledger. */

/** At most this many of an agent's latest calls in the window are read. */
const MAX_CALLS = 20_000
const MAX_RUNS = 2_000

/** Reads the usage statistics of agents. */
export function createAgentUsageStatsStore(sql: Sql) {
  return {
    async toolsOf(agentId: string, since: Date): Promise<AgentToolUsageStats[]> {
      const rows = await sql<ToolRow[]>`
        with mine as (
          select tool, status, error_code, cost_micros, ms, request_hash, call_id from calls
           where owner = ${agentId} and at >= ${since} and tool is not null
           order by call_id desc limit ${MAX_CALLS}),
        numbered as (
          select *, row_number() over (partition by tool, request_hash order by call_id) as nth
            from mine)
        select tool, count(*)::int as calls, count(*) filter (where status = 'failed')::int as failed,
               count(*) filter (where error_code = any(${CALLER_ERROR_CODES as string[]}))::int
                 as caller_errors,
               coalesce(sum(cost_micros), 0)::bigint as spent,
               percentile_disc(0.95) within group (order by ms)::int as p95,
               count(*) filter (where request_hash is not null and status = 'ok' and nth > 1)::int
                 as repeated,
               coalesce(sum(cost_micros) filter (
                 where request_hash is not null and status = 'ok' and nth > 1), 0)::bigint
                 as repeated_spent,
               (select coalesce(jsonb_agg(jsonb_build_object('code', code, 'count', n)
                         order by n desc, code), '[]')
                  from (select coalesce(error_code, 'internal') as code, count(*) as n from mine m
                         where m.tool = numbered.tool and m.status = 'failed' group by 1) f) as failures
          from numbered group by tool order by spent desc, calls desc, tool`
      return rows.map((row) => ({
        tool: row.tool,
        calls: row.calls,
        failed: row.failed,
        callerErrors: row.caller_errors,
        spent: asMicros(row.spent),
        p95Ms: row.p95,
        failures: row.failures,
        repeated: row.repeated,
        repeatedSpent: asMicros(row.repeated_spent),
      }))
    },

    /** Days with a call, oldest first. */
    async daysOf(agentId: string, since: Date): Promise<DailyUsageStats[]> {
      const rows = await sql<{ day: string; calls: bigint; spent_micros: bigint }[]>`
        select to_char(day, 'YYYY-MM-DD') as day, calls, spent_micros from usage_daily
         where owner = ${agentId} and day >= (${since}::timestamptz at time zone 'UTC')::date
         order by day`
      return rows.map((row) => ({
        day: row.day,
        calls: Number(row.calls),
        spent: asMicros(row.spent_micros),
      }))
    },

    async backpacksOf(agentId: string, since: Date): Promise<BackpackUsageStats[]> {
      const rows = await sql<BackpackRow[]>`
        select b.id, b.state->'value' as value, b.state->'context' as context,
               coalesce(array_agg(distinct coalesce(c.tool, c.operation)) filter (where c.owner is not null), '{}') as used,
               coalesce(sum(c.cost_micros), 0)::bigint as spent,
               coalesce(max(c.cost_micros), 0)::bigint as dearest
          from actors b
          left join calls c on c.backpack_id = b.id and c.owner = b.aggregate_id and c.at >= ${since}
         where b.aggregate_id = ${agentId} and b.kind = 'backpack' and not b.archived
         group by b.id, b.state order by b.id limit 100`
      return rows.map((row) => ({
        id: row.id,
        // A nested state is named by its outer state.
        state: typeof row.value === 'string' ? row.value : (Object.keys(row.value)[0] ?? ''),
        tools: row.context.tools,
        perCall: parseSnapshotAmount(row.context.fuse.perCall),
        perDay: parseSnapshotAmount(row.context.fuse.perDay),
        perMonth: parseSnapshotAmount(row.context.fuse.perMonth),
        used: row.used,
        spent: asMicros(row.spent),
        maxCallCost: asMicros(row.dearest),
      }))
    },

    async schedulesOf(agentId: string, since: Date): Promise<AgentScheduleUsageStats[]> {
      const rows = await sql<ScheduleRow[]>`
        with runs as (
          select schedule_id, slot, ok, cost_micros,
                 ok and result is not null and result is not distinct from
                   lag(result) over (partition by schedule_id order by slot) as same,
                 sum(ok::int) over (partition by schedule_id order by slot desc) as later_ok
            from (select * from schedule_runs
                   where agent_id = ${agentId}::uuid and at >= ${since}
                   order by at desc limit ${MAX_RUNS}) latest)
        select s.id, s.state->>'value' as value, s.state->'context' as context,
               count(r.slot)::int as runs, count(*) filter (where not r.ok)::int as failed,
               coalesce(sum(r.cost_micros), 0)::bigint as spent,
               coalesce(max(r.cost_micros), 0)::bigint as dearest,
               count(*) filter (where r.later_ok = 0)::int as failing,
               count(*) filter (where r.same)::int as unchanged
          from actors s left join runs r on r.schedule_id::text = s.id
         where s.aggregate_id = ${agentId} and s.kind = 'schedule' and not s.archived
         group by s.id, s.state order by s.id limit 100`
      return rows.map((row) => ({
        id: row.id,
        tool: row.context.tool,
        state: row.value,
        budget: parseSnapshotAmount(row.context.budget) ?? asMicros(0n),
        everyMs: row.context.every,
        runs: row.runs,
        failed: row.failed,
        spent: asMicros(row.spent),
        maxRunCost: asMicros(row.dearest),
        consecutiveFailures: row.failing,
        unchangedRuns: row.unchanged,
      }))
    },

    /** The agent's spendable credits after its last commit. */
    async balanceOf(agentId: string): Promise<Micros> {
      const [row] = await sql<{ context: { promo: SnapshotAmount; cash: SnapshotAmount } }[]>`
        select state->'context' as context from actors
         where aggregate_id = ${agentId} and kind = 'agent' and id = ${agentId}`
      const { promo = null, cash = null } = row?.context ?? {}
      return asMicros((parseSnapshotAmount(promo) ?? 0n) + (parseSnapshotAmount(cash) ?? 0n))
    },

    /** Tools an agent has called publicly since then. */
    async publicToolsOf(agentId: string, since: Date): Promise<string[]> {
      const rows = await sql<{ tool: string }[]>`
        select distinct tool from (
          select tool from calls where owner = ${agentId} and at >= ${since}
             and tool is not null and not ghost order by call_id desc limit ${MAX_CALLS}) mine`
      return rows.map(({ tool }) => tool)
    },

    /** Pairs of tools that the same agents call. Reads every call since then: call it rarely. */
    async together(since: Date): Promise<ToolCoUsage[]> {
      return sql<ToolCoUsage[]>`
        with used as (
          select distinct owner, tool from calls
           where at >= ${since} and tool is not null and status = 'ok' and not ghost
             and agent_id is not null),
        users as (select tool, count(*)::int as n from used group by tool)
        select a.tool, b.tool as other, count(*)::int as agents, u.n as of
          from used a join used b on b.owner = a.owner and b.tool <> a.tool
          join users u on u.tool = a.tool
         group by a.tool, b.tool, u.n`
    },
  }
}
export type AgentUsageStatsStore = ReturnType<typeof createAgentUsageStatsStore>

/** An amount as snapshots store it (core/json/bigint.ts). */
type SnapshotAmount = { readonly $n: string } | null
const parseSnapshotAmount = (stored: SnapshotAmount): Micros | null =>
  stored === null ? null : asMicros(BigInt(stored.$n))

interface ToolRow {
  tool: string
  calls: number
  failed: number
  caller_errors: number
  spent: bigint
  p95: number
  repeated: number
  repeated_spent: bigint
  failures: { code: string; count: number }[]
}
interface BackpackRow {
  id: string
  value: string | Record<string, unknown>
  context: {
    tools: string[] | null
    fuse: { perCall: SnapshotAmount; perDay: SnapshotAmount; perMonth: SnapshotAmount }
  }
  used: string[]
  spent: bigint
  dearest: bigint
}
interface ScheduleRow {
  id: string
  value: string
  context: { tool: string; every: number; budget: SnapshotAmount }
  runs: number
  failed: number
  spent: bigint
  dearest: bigint
  failing: number
  unchanged: number
}
