import type { Sql } from '../../persistence/plane.ts'
import type { Day } from './day.ts'

/** What is planted, and the rule that must name it. */
export interface Plant {
  readonly says: string
  readonly rule: string
  readonly plant: (sql: Sql, day: Day) => Promise<unknown>
}

/** What may be wrong with what a key spends in its Backpack. */
export const keyPlants: readonly Plant[] = [
  {
    says: 'a send in a Backpack that its log does not list',
    rule: 'I5b',
    plant: (sql) => sql`delete from calls where operation = 'agent_send'`,
  },
  {
    says: 'a key with a cap that forgot a send',
    rule: 'I5d',
    plant: (sql) => sql`delete from calls where operation = 'agent_send'`,
  },
  {
    says: 'a day of a key that forgot a call',
    rule: 'I5d',
    plant: (sql) => sql`
      update actors set state = jsonb_set(state, array['context', 'keyWindows', k.id, 'spentDay'], '{"$n":"1"}')
        from (select a.id as agent, jsonb_object_keys(a.state->'context'->'keyWindows') as id
                from actors a where a.kind = 'agent') k
       where kind = 'agent' and actors.id = k.agent`,
  },
]

/** What may be wrong with schedules. */
export const schedulePlants: readonly Plant[] = [
  {
    says: 'a run of a schedule that says another price',
    rule: 'I5c',
    plant: (sql) => sql`update schedule_runs set cost_micros = 1 where ok`,
  },
  {
    says: 'a run of a schedule beyond its budget',
    rule: 'I5c',
    plant: (sql) => sql`update schedule_runs set budget_micros = 19999`,
  },
  {
    says: 'a slot of a schedule that was charged and not run',
    rule: 'I5c',
    plant: (sql) => sql`delete from schedule_runs`,
  },
  {
    says: 'an enabled schedule without its timer',
    rule: 'S1',
    plant: (sql) => sql`delete from timers where command = 'schedule.run'`,
  },
  {
    says: 'the timer of another slot',
    rule: 'S1',
    plant: (sql) => sql`update timers set input = jsonb_set(input, '{slot}', '1')
      where command = 'schedule.run'`,
  },
  {
    says: 'the timer of a schedule that is disabled',
    rule: 'S1',
    plant: (sql) => sql`update actors set state = jsonb_set(state, '{value}', '"disabled"')
      where kind = 'schedule' and state->>'value' = 'enabled'`,
  },
  {
    says: 'a timer without a schedule',
    rule: 'S1',
    plant: (sql) => sql`
      insert into timers select aggregate_id, 'agent', 'schedule:x', now(), 'schedule.run',
        '{"scheduleId":"x","slot":1}' from actors where kind = 'schedule' limit 1`,
  },
  {
    says: 'a paused schedule of a fleet that nobody looks after',
    rule: 'S1',
    plant: (sql) => sql`delete from schedules_short`,
  },
]
