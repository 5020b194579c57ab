import {
  decryptEnvelope,
  encryptEnvelope,
  type EncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import { parseExactJson } from '../../core/json/exact.ts'
import { isUuid } from '../../core/ids-and-api-keys.ts'
import { asMicros, type Micros } from '../../core/money.ts'
import { redactSecrets } from '../../core/validation/redact-secrets.ts'
import { toUnquotedArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** A slot whose run has not ended, as its timer identifies it. */
export interface DueScheduleRun {
  readonly agentId: string
  readonly scheduleId: string
  readonly slot: number
}

/** How the last run of a schedule ended. */
export interface LastScheduleRun {
  readonly at: Date
  readonly slot: Date
  readonly ok: boolean
  readonly errorCode: string | null
  readonly callId: string | null
  readonly cost: Micros
  /** The tool's reply; null if it failed or was too long to store. */
  readonly result: unknown
}

/** The data of a schedule outside its agent's snapshot. */
export interface ScheduleRecord {
  readonly params: Record<string, unknown>
  readonly last: LastScheduleRun | null
}

/**
 * Stores schedules; encrypts credentials in their params. The database's clock decides what is due.
 */
export function createScheduleStore(sql: Sql, sealing: EncryptionKeys) {
  return {
    seal: (agentId: string, params: Record<string, unknown>) =>
      sealScheduleParams(sealing, agentId, params),

    /**
     * Due slots, oldest first, and milliseconds until the next one, or null. One statement reads
     * both, so that no slot is missed in between.
     */
    async look(limit: number): Promise<DueScheduleScan> {
      const rows = await sql<(DueRow & { ms: number })[]>`
        (select aggregate_id, input, 0::float8 as ms from timers
          where command = 'schedule.run' and due_at <= statement_timestamp()
          order by due_at, aggregate_id, id limit ${limit})
        union all
        (select aggregate_id, input,
                extract(epoch from due_at - statement_timestamp())::float8 * 1000 as ms from timers
          where command = 'schedule.run' and due_at > statement_timestamp()
          order by due_at limit 1)`
      const next = rows.find(({ ms }) => ms > 0)
      return { due: rows.filter((row) => row !== next).map(toDueRun), nextInMs: next?.ms ?? null }
    },

    /** The params of a due slot and the current instant; null if it is not due any more. */
    async claim({ agentId, scheduleId, slot }: DueScheduleRun): Promise<ScheduleRunClaim | null> {
      const [row] = await sql<{ params: string; sealed: Buffer | null; at: number }[]>`
        select p.params, p.sealed, floor(extract(epoch from clock_timestamp()) * 1000)::float8 as at
          from timers t join schedule_params p on p.schedule_id = ${scheduleId}
         where t.aggregate_id = ${agentId} and t.id = ${`schedule:${scheduleId}`}
           and (t.input->>'slot')::bigint = ${slot} and t.due_at <= clock_timestamp()`
      if (row === undefined) return null
      const { params, sealed, at } = row
      const asked =
        sealed === null
          ? params
          : decryptEnvelope(sealing, sealed, scheduleParamsAad(agentId)).toString()
      return { params: parseJsonObject(asked), at }
    },

    /** Deletes entries of schedules that have resumed, or never will. */
    async forgetShort(): Promise<void> {
      await sql`
        delete from underfunded_schedules w where not exists (
          select from actors s where s.aggregate_id = w.agent_id::text and s.kind = 'schedule'
             and s.id = w.schedule_id::text and s.state->>'value' = 'paused'
             and (s.state->'context'->>'ended')::bigint = w.slot)`
    },

    /** Paused schedules that their agent and its fleet's pool can pay again, by id. */
    async payable(after: string | null, limit: number): Promise<ScheduleResumableByFleetPool[]> {
      const rows = await sql<{ schedule_id: string; agent_id: string; pool: bigint }[]>`
        select w.schedule_id, w.agent_id, p.pool
          from underfunded_schedules w
          join actors s on s.aggregate_id = w.agent_id::text and s.kind = 'schedule'
           and s.id = w.schedule_id::text
          join actors a on a.aggregate_id = w.agent_id::text and a.kind = 'agent'
           and a.id = a.aggregate_id
          join fleet_members m on m.agent_id = w.agent_id
          join actors f on f.aggregate_id = m.fleet_id::text and f.kind = 'fleet'
           and f.id = f.aggregate_id,
       lateral (select (f.state->'context'->'promo'->>'$n')::bigint
                  + (f.state->'context'->'cash'->>'$n')::bigint as pool) p
         where s.state->>'value' = 'paused' and (${after}::uuid is null or w.schedule_id > ${after})
           and (s.state->'context'->'needed'->>'$n')::bigint <= p.pool
             + (a.state->'context'->'promo'->>'$n')::bigint
             + (a.state->'context'->'cash'->>'$n')::bigint
         order by w.schedule_id limit ${limit}`
      return rows.map((row) => ({
        scheduleId: row.schedule_id,
        agentId: row.agent_id,
        pool: asMicros(row.pool),
      }))
    },

    /** The records of an agent's schedules by their ids; ids of other agents are missing. */
    async filesOf(agentId: string, ids: readonly string[]): Promise<Map<string, ScheduleRecord>> {
      const rows = await sql<ScheduleRecordRow[]>`
        select p.schedule_id, p.params, r.slot, r.at, r.ok, r.error_code, r.call_id,
               r.cost_micros, r.result
          from schedule_params p left join lateral (
            select * from schedule_runs r where r.schedule_id = p.schedule_id
             order by slot desc limit 1) r on true
         where p.agent_id = ${agentId}
           and p.schedule_id = any(${toUnquotedArrayLiteral(ids.filter(isUuid))}::uuid[])`
      return new Map(rows.map((row) => [row.schedule_id, fromRow(row)]))
    },

    /** Deletes results of runs that were followed by a later run; the run and its cost stay. */
    async forgetResults(before: Date): Promise<void> {
      await sql`
        update schedule_runs r set result = null
         where r.result is not null and r.at < ${before} and exists (
           select from schedule_runs later
            where later.schedule_id = r.schedule_id and later.slot > r.slot)`
    },
  }
}
export type ScheduleStore = ReturnType<typeof createScheduleStore>

/** Params of a schedule as stored. */
export interface StoredScheduleParams {
  /** Without credentials: the public part. */
  readonly shown: Record<string, unknown>
  /** All params, encrypted, in hexadecimal; null if they contain no credential. */
  readonly sealed: string | null
}

/** Credentials in params are encrypted under the master key, like keyring secrets. */
function sealScheduleParams(
  sealing: EncryptionKeys,
  agentId: string,
  params: Record<string, unknown>,
): StoredScheduleParams {
  const { shown, found } = redactSecrets(params)
  const sealed = found
    ? encryptEnvelope(sealing, JSON.stringify(params), scheduleParamsAad(agentId))
    : null
  return { shown: shown as Record<string, unknown>, sealed: sealed?.toString('hex') ?? null }
}

const scheduleParamsAad = (agentId: string) => ['schedule', agentId]

/** A schedule that can resume, and the credits its agent's fleet pool can lend. */
export interface ScheduleResumableByFleetPool {
  readonly scheduleId: string
  readonly agentId: string
  readonly pool: Micros
}

export interface DueScheduleScan {
  readonly due: readonly DueScheduleRun[]
  readonly nextInMs: number | null
}

export interface ScheduleRunClaim {
  readonly params: Record<string, unknown>
  /** Milliseconds by the database's clock. */
  readonly at: number
}

interface DueRow {
  aggregate_id: string
  input: { scheduleId: string; slot: number }
}

const toDueRun = ({ aggregate_id: agentId, input }: DueRow): DueScheduleRun => ({
  agentId,
  scheduleId: input.scheduleId,
  slot: input.slot,
})

interface ScheduleRecordRow {
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

const parseJsonObject = (text: string) => JSON.parse(text) as Record<string, unknown>

const fromRow = (row: ScheduleRecordRow): ScheduleRecord => ({
  // Rows of earlier releases have credentials under names that were not known as such.
  params: redactSecrets(parseJsonObject(row.params)).shown as Record<string, unknown>,
  last:
    row.slot === null
      ? null
      : {
          at: row.at,
          slot: row.slot,
          ok: row.ok,
          errorCode: row.error_code,
          callId: row.call_id,
          cost: asMicros(row.cost_micros),
          result: row.result === null ? null : parseExactJson(row.result),
        },
})
