import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import type { LedgerCorruption } from './ledger-corruptions.ts'

/** Corruptions of task passes, and of the shares of creators. */

/** Changes a field of every pass. */
const changePasses = (sql: Sql, field: string, value: string) => sql`
  update actors set state = jsonb_set(state, '{context,passes}', (
      select jsonb_object_agg(key, jsonb_set(value, array[${field}], ${value}::text::jsonb))
        from jsonb_each(state->'context'->'passes')))
   where kind = 'taskPasses'`

export const taskPassCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'a creator that another agent names',
    rule: 'G2',
    apply: (
      sql,
      { id },
    ) => sql`update actors set state = jsonb_set(state, '{context,parent}', to_jsonb(${id}::text))
      where kind = 'agent' and state->'context'->>'parent' is not null`,
  },
  {
    description: 'a creator without its share',
    rule: 'G2',
    apply: (
      sql,
      { id, other },
    ) => sql`update actors set state = jsonb_set(state, '{context,parent}', to_jsonb(${other}::text))
      where kind = 'agent' and id = ${id}`,
  },
  {
    description: 'a pass with a call more than its account pays',
    rule: 'T1',
    apply: (sql) => changePasses(sql, 'left', '49'),
  },
  {
    description: 'a pass with less cash than its account',
    rule: 'T1',
    apply: (sql) => changePasses(sql, 'promo', '{"$n":"1"}'),
  },
  {
    description: 'a pass without the row of its purchase',
    rule: 'T2',
    apply: (sql) => sql`delete from task_passes`,
  },
  {
    description: 'a pass that pays more calls than were bought',
    rule: 'T2',
    apply: (sql) => sql`update task_passes set calls = 1, price_micros = calls * price_micros`,
  },
  {
    description: 'a call that a pass has paid on another rail',
    rule: 'T3',
    apply: (sql) => sql`update calls set rail = 'credits' where rail = 'pass'`,
  },
  {
    description: 'a call on the rail pass that no pass has paid',
    rule: 'T3',
    apply: (sql) => sql`update calls set rail = 'pass' where cost_micros > 0`,
  },
  {
    description: 'a held call of a pass that its agent does not hold',
    rule: 'T3',
    apply: (sql) => changePasses(sql, 'held', '0'),
  },
]
