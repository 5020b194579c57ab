import { LIMITS } from '../../core/limits.ts'
import type { BackpackRefusalCount } from '../../core/aggregate-commit-row-types.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Stores rejected calls of Backpacks, as their spend logs list them. */
export function createBackpackRefusalStore(sql: Sql) {
  return {
    /**
     * Adds counts to those of the same minute, across nodes, and keeps the latest
     * `LIMITS.backpackRefusals` rows of each Backpack.
     */
    async add(counts: readonly BackpackRefusalCount[]): Promise<void> {
      const rows = counts.map((one) => ({
        id: one.id,
        backpack_id: one.backpackId,
        tool: one.tool,
        code: one.code,
        times: one.times,
        first_at: new Date(one.firstAt).toISOString(),
        last_at: new Date(one.lastAt).toISOString(),
      }))
      // The same order on every node prevents deadlocks.
      await sql`
        insert into backpack_refusals as r (id, backpack_id, tool, code, minute, times, last_at)
        select id, backpack_id, tool, code, date_trunc('minute', first_at, 'UTC'), times, last_at
          from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb)
               x(id uuid, backpack_id text, tool text, code text, times int, first_at timestamptz, last_at timestamptz)
         order by backpack_id, tool, code, 5
        on conflict (backpack_id, tool, code, minute) do update
          set times = r.times + excluded.times, last_at = greatest(r.last_at, excluded.last_at)`
      await sql`
        delete from backpack_refusals where id in (
          select old.id from unnest(${[...new Set(counts.map((one) => one.backpackId))]}::text[]) p(id),
         lateral (select r.id from backpack_refusals r where r.backpack_id = p.id
                   order by r.id desc offset ${LIMITS.backpackRefusals}) old)`
    },
  }
}
