import { asMicros, type Micros } from '../../core/money.ts'
import { parseExactJson } from '../../core/json/exact.ts'
import type { IdempotentResponse } from '../../core/aggregate-commit-row-types.ts'
import { deleteUnrepeatableAnswerTexts } from './call-answer-hashes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { rollUpStatistics } from '../statistics/roll-up-statistics.ts'

/** Reads of the call log. */

export interface CallLogEntry {
  readonly callId: string
  readonly tool: string | null
  readonly operation: string
  readonly rail: string
  readonly cost: Micros
  readonly ok: boolean
  readonly errorCode: string | null
  readonly ms: number
  readonly taskId: string | null
  readonly backpackId: string | null
  /** Private: excluded from public figures. */
  readonly ghost: boolean
  /** When it was admitted. */
  readonly at: Date
  /** More than one if a row combines several rejections; `at` is that of the last. */
  readonly times: number
}

/** Filter of a call list; undefined or null does not filter. */
export interface CallLogFilter {
  readonly tool?: string | undefined
  /** Inclusive. */
  readonly from?: Date | undefined
  /** Exclusive. */
  readonly to?: Date | undefined
  readonly success?: boolean | undefined
  readonly taskId?: string | undefined
  readonly backpackId?: string | null | undefined
}

/** Reads the `calls` table, which holds stored replies and spend logs. */
export function createCallLogStore(sql: Sql) {
  return {
    /** The reply stored under a key in the last 24 hours. `owner` is an agent or a visitor. */
    async findAnswer(owner: string, key: string): Promise<IdempotentResponse | null> {
      const [row] = await sql<AnswerRow[]>`
        select call_id, operation, request_hash, response from calls
         where owner = ${owner} and idempotency_key = ${key} and at > now() - interval '24 hours'
         order by at limit 1`
      return row === undefined ? null : toStoredAnswer(row)
    },

    /** The reply to one call, stored for a day; null once it is deleted. */
    async answerTo(owner: string, callId: string): Promise<IdempotentResponse['response'] | null> {
      const [row] = await sql<{ response: string }[]>`
        select response from calls
         where owner = ${owner} and call_id = ${callId} and response is not null`
      return row === undefined
        ? null
        : (parseExactJson(row.response) as IdempotentResponse['response'])
    },

    /** One tool call of an owner; with `backpackId`, only if it was made in that Backpack. */
    async find(
      owner: string,
      callId: string,
      backpackId: string | null = null,
    ): Promise<CallLogEntry | null> {
      const [row] = await sql<CallLogRow[]>`
        select ${callColumns(sql)} from calls where owner = ${owner} and call_id = ${callId}
           and tool is not null and (${backpackId}::text is null or backpack_id = ${backpackId})`
      return row === undefined ? null : fromRow(row)
    },

    /** Tool calls of an owner, last admitted first; `before` is a call id. */
    async callsOf(
      owner: string,
      filter: CallLogFilter,
      limit: number,
      before: string | null,
    ): Promise<CallLogEntry[]> {
      const rows = await sql<CallLogRow[]>`
        select ${callColumns(sql)} from calls where owner = ${owner} and tool is not null
           and (${filter.backpackId ?? null}::text is null or backpack_id = ${filter.backpackId ?? null})
           and ${callFilterSql(sql, filter, before)} order by call_id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /**
     * The spend log of a Backpack, newest first: calls, and transfers, tips and bounties under
     * their permission; rejections are one row per tool, code and minute. `before` is the id of a
     * row.
     */
    async spendOf(
      backpackId: string,
      filter: CallLogFilter,
      limit: number,
      before: string | null,
    ): Promise<CallLogEntry[]> {
      const rows = await sql<CallLogRow[]>`
        select * from (
          (select ${callColumns(sql)}, 1 as times from calls where backpack_id = ${backpackId}
              and ${callFilterSql(sql, filter, before)} order by call_id desc limit ${limit})
          union all
          (select ${callColumns(sql)}, times from (
             select id as call_id, tool, 'refused' as operation, 'none' as rail, 0::bigint as cost_micros,
                    'failed' as status, code as error_code, 0 as ms, null::uuid as task_id, backpack_id,
                    false as ghost, last_at as at, times
               from backpack_refusals where backpack_id = ${backpackId}) refused
            where ${callFilterSql(sql, filter, before)} order by call_id desc limit ${limit})
        ) both_kinds order by call_id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** An agent's usage: today by the UTC calendar, and in total. */
    async usageOf(agentId: string): Promise<AgentCallUsage> {
      const [row] = await sql<UsageRow[]>`
        select coalesce(sum(calls) filter (where today), 0)::bigint as calls_today,
               coalesce(sum(spent_micros) filter (where today), 0)::bigint as spent_today,
               coalesce(sum(calls), 0)::bigint as calls_total,
               coalesce(sum(spent_micros), 0)::bigint as spent_total
          from (select calls, spent_micros, day = (now() at time zone 'UTC')::date as today
                  from usage_daily where owner = ${agentId}) mine`
      return {
        callsToday: Number(row?.calls_today ?? 0n),
        spentToday: asMicros(row?.spent_today ?? 0n),
        callsTotal: Number(row?.calls_total ?? 0n),
        spentTotal: asMicros(row?.spent_total ?? 0n),
      }
    },

    /** Calls of an agent in one of its Backpacks since an instant. */
    async callsWithin(agentId: string, backpackId: string, since: Date): Promise<number> {
      const [row] = await sql<{ calls: bigint }[]>`
        select count(*) as calls from calls
         where backpack_id = ${backpackId} and owner = ${agentId} and at >= ${since}`
      return Number(row?.calls ?? 0n)
    },

    /** Whether a call, transfer or bounty id belongs to one of the agent's Backpacks. */
    async isWithin(agentId: string, backpackId: string, id: string): Promise<boolean> {
      const rows = await sql`
        select from calls
         where backpack_id = ${backpackId} and owner = ${agentId} and call_id = ${id}::uuid`
      return rows.length > 0
    },

    /** Deletes the text of replies that can no longer be repeated. */
    forgetAnswers: () => deleteUnrepeatableAnswerTexts(sql),

    /**
     * Success rate and latency of each tool over the last seven days. Counts valid, paid calls
     * (`CALLER_ERROR_CODES`) and excludes private ones.
     */
    async toolStats(): Promise<Map<string, LoggedToolStats>> {
      await rollUpStatistics(sql)
      const rows = await sql<{ tool: string; ok: number; ms: number; calls: bigint }[]>`
        select tool, (sum(ok) / sum(judged))::float8 as ok, (sum(judged_ms) / sum(judged))::float8 as ms,
               sum(judged)::bigint as calls
          from tool_hours where hour > now() - interval '7 days' group by tool having sum(judged) > 0`
      return new Map(
        rows.map((row) => [
          row.tool,
          { successRate: row.ok, avgLatencyMs: row.ms, calls: Number(row.calls) },
        ]),
      )
    },
  }
}
export type CallLogStore = ReturnType<typeof createCallLogStore>

/** Entries that are not tool calls use the name of their operation. */
const callColumns = (
  sql: Sql,
) => sql`call_id, coalesce(tool, operation) as tool, operation, rail, cost_micros, status, error_code,
  ms, task_id, backpack_id, ghost, at`

function callFilterSql(
  sql: Sql,
  {
    tool = null,
    from = null,
    to = null,
    success,
    taskId = null,
  }: NullableProperties<CallLogFilter>,
  before: string | null,
) {
  const status = success === undefined || success === null ? null : success ? 'ok' : 'failed'
  return sql`(${before}::uuid is null or call_id < ${before}::uuid)
    and (${tool}::text is null or coalesce(tool, operation) = ${tool})
    and (${from}::timestamptz is null or at >= ${from})
    and (${to}::timestamptz is null or at < ${to})
    and (${taskId}::uuid is null or task_id = ${taskId}::uuid)
    and (${status}::text is null or status = ${status})`
}
type NullableProperties<T> = { readonly [K in keyof T]?: T[K] | null }

export interface AgentCallUsage {
  readonly callsToday: number
  readonly spentToday: Micros
  readonly callsTotal: number
  readonly spentTotal: Micros
}

export interface LoggedToolStats {
  readonly successRate: number
  readonly avgLatencyMs: number
  readonly calls: number
}

interface AnswerRow {
  call_id: string
  operation: string
  request_hash: string
  response: string
}
interface UsageRow {
  calls_today: bigint
  spent_today: bigint
  calls_total: bigint
  spent_total: bigint
}
interface CallLogRow {
  call_id: string
  tool: string | null
  operation: string
  rail: string
  cost_micros: bigint
  status: string
  error_code: string | null
  ms: number
  task_id: string | null
  backpack_id: string | null
  ghost: boolean
  at: Date
  times?: number
}

const toStoredAnswer = (row: AnswerRow): IdempotentResponse => ({
  callId: row.call_id,
  operation: row.operation,
  requestHash: row.request_hash,
  response: parseExactJson(row.response) as IdempotentResponse['response'],
})

const fromRow = (row: CallLogRow): CallLogEntry => ({
  callId: row.call_id,
  tool: row.tool,
  operation: row.operation,
  rail: row.rail,
  cost: asMicros(row.cost_micros),
  ok: row.status === 'ok',
  errorCode: row.error_code,
  ms: row.ms,
  taskId: row.task_id,
  backpackId: row.backpack_id,
  ghost: row.ghost,
  at: row.at,
  times: row.times ?? 1,
})
