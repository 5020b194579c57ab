import { isUuid } from '../core/ids.ts'
import { micros, type Micros } from '../core/money.ts'
import { plainArray } from './pg-array.ts'
import type { Sql } from './plane.ts'

/** A slot whose run has not ended, as its timer names it. */
export interface DueRun {
  readonly agentId: string
  readonly scheduleId: string
  readonly slot: number
}

/** How the last run of a schedule ended. */
export interface LastRun {
  readonly at: Date
  readonly slot: Date
  readonly ok: boolean
  readonly errorCode: string | null
  readonly callId: string | null
  readonly cost: Micros
  /** What the tool answered; null where it failed or its answer was too long to keep. */
  readonly result: unknown
}

/** What lies beside the snapshots of an agent's schedules. */
export interface ScheduleFile {
  readonly params: Record<string, unknown>
  readonly last: LastRun | null
}

/** Reads of schedules. What is due is decided by the database's clock, whatever a node's own says. */
export function scheduleStore(sql: Sql) {
  return {
    /** Slots that are due, oldest first, without the first `skip` of them. */
    async dueRuns(limit: number, skip: number): Promise<DueRun[]> {
      const rows = await sql<DueRow[]>`
        select aggregate_id, input from timers
         where command = 'schedule.run' and due_at <= clock_timestamp()
         order by due_at, aggregate_id, id limit ${limit} offset ${skip}`
      return rows.map(({ aggregate_id: agentId, input: { scheduleId, slot } }) => ({
        agentId,
        scheduleId,
        slot,
      }))
    },

    /** Milliseconds until the next slot is due; null when there is none. */
    async nextIn(): Promise<number | null> {
      const [row] = await sql<{ ms: number | null }[]>`
        select extract(epoch from min(due_at) - clock_timestamp())::float8 * 1000 as ms from timers
         where command = 'schedule.run' and due_at > clock_timestamp()`
      return row?.ms ?? null
    },

    /** What a due slot asks its tool, and the present instant; null when it is not due any more. */
    async claim({ agentId, scheduleId, slot }: DueRun): Promise<Claim | null> {
      const [row] = await sql<{ params: string; at: number }[]>`
        select p.params, floor(extract(epoch from clock_timestamp()) * 1000)::float8 as at
          from timers t join schedule_params p on p.schedule_id = ${scheduleId}
         where t.aggregate_id = ${agentId} and t.id = ${`schedule:${scheduleId}`}
           and (t.input->>'slot')::bigint = ${slot} and t.due_at <= clock_timestamp()`
      return row === undefined ? null : { params: objectOf(row.params), at: row.at }
    },

    /** The spending cap of a key, also of one that was revoked: its schedules stay under it. */
    async capOf(keyId: string): Promise<Micros | null> {
      const [row] = await sql<{ cap_micros: bigint | null }[]>`
        select cap_micros from api_keys where id = ${keyId}`
      return row === undefined || row.cap_micros === null ? null : micros(row.cap_micros)
    },

    /** The files of an agent's schedules by their ids; what is not its own is not there. */
    async filesOf(agentId: string, ids: readonly string[]): Promise<Map<string, ScheduleFile>> {
      const rows = await sql<FileRow[]>`
        select p.schedule_id, p.params, r.slot, r.at, r.ok, r.error_code, r.call_id,
               r.cost_micros, r.result
          from schedule_params p left join lateral (
            select * from schedule_runs r where r.schedule_id = p.schedule_id
             order by slot desc limit 1) r on true
         where p.agent_id = ${agentId}
           and p.schedule_id = any(${plainArray(ids.filter(isUuid))}::uuid[])`
      return new Map(rows.map((row) => [row.schedule_id, fromRow(row)]))
    },

    /** Takes the results of runs that a later one has replaced; that they ran, and for what, stays. */
    async forgetResults(before: Date): Promise<void> {
      await sql`
        update schedule_runs r set result = null
         where r.result is not null and r.at < ${before} and exists (
           select from schedule_runs later
            where later.schedule_id = r.schedule_id and later.slot > r.slot)`
    },
  }
}
export type ScheduleStore = ReturnType<typeof scheduleStore>

export interface Claim {
  readonly params: Record<string, unknown>
  /** Milliseconds by the database's clock. */
  readonly at: number
}

interface DueRow {
  aggregate_id: string
  input: { scheduleId: string; slot: number }
}

interface FileRow {
  schedule_id: string
  params: string
  slot: Date | null
  at: Date
  ok: boolean
  error_code: string | null
  call_id: string | null
  cost_micros: bigint
  result: string | null
}

const objectOf = (text: string) => JSON.parse(text) as Record<string, unknown>

const fromRow = (row: FileRow): ScheduleFile => ({
  params: objectOf(row.params),
  last:
    row.slot === null
      ? null
      : {
          at: row.at,
          slot: row.slot,
          ok: row.ok,
          errorCode: row.error_code,
          callId: row.call_id,
          cost: micros(row.cost_micros),
          result: row.result === null ? null : (JSON.parse(row.result) as unknown),
        },
})
