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

/** Members that a fleet and its agents see otherwise, and loans that go astray. */
export const fleetPlants: readonly Plant[] = [
  {
    says: 'an agent that draws on a fleet it is not in',
    rule: 'F2',
    plant: (sql, { other }) => sql`update actors
      set state = jsonb_set(state, '{context,fleetId}', '"018f6f7a-0000-7000-8000-00000000000f"')
      where kind = 'agent' and id = ${other}`,
  },
  {
    says: 'a member that draws on nothing',
    rule: 'F2',
    plant: (sql) => sql`update actors set state = jsonb_set(state, '{context,fleetId}', 'null')
      where kind = 'agent' and id in (select agent_id::text from fleet_members)`,
  },
  {
    says: 'a loan that came back to a fleet that had not lent it',
    rule: 'F3',
    plant: (sql) => sql`
      insert into transfers (id, owner, debit, credit, amount_micros, kind, call_id, at)
        select gen_random_uuid(), owner, debit, 'fleet:018f6f7a-0000-7000-8000-00000000000f',
               amount_micros, kind, call_id, at
          from transfers where kind = 'draw_back' limit 1`,
  },
  {
    says: 'a loan in a snapshot that no fleet has made',
    rule: 'F3',
    plant: (sql) => sql`
      update actors set state = jsonb_set(state, '{context,holds,x}',
          '{"loans": [{"fleetId": "018f6f7a-0000-7000-8000-00000000000f", "promo": {"$n": "0"}, "cash": {"$n": "5"}}]}')
        where kind = 'agent'`,
  },
]

const move = (sql: Sql, debit: string, credit: string, kind: string) =>
  sql`insert into transfers (id, owner, debit, credit, amount_micros, kind, at)
    values (gen_random_uuid(), 'x', ${debit}, ${credit}, 5, ${kind}, now())`

/** How promotional credits may become cash or another agent's, and cash come from nowhere. */
export const creditPlants: readonly Plant[] = [
  {
    says: 'promotional credits that a referrer is paid as cash',
    rule: 'P1',
    plant: async (sql, { id, other }) => {
      await move(sql, `agent:${id}:promo`, `referral:${other}`, 'charge')
      await move(sql, `referral:${other}`, `agent:${other}:cash`, 'payout')
    },
  },
  {
    says: 'promotional credits that a hold gives back as cash',
    rule: 'P1',
    plant: (sql, { id }) => move(sql, `agent:${id}:held:promo`, `agent:${id}:cash`, 'release'),
  },
  {
    says: 'promotional credits out of deposited ones',
    rule: 'P1',
    plant: (sql, { id }) => move(sql, `agent:${id}:cash`, `agent:${id}:promo`, 'send'),
  },
  {
    says: 'promotional credits that were sent without the permission',
    rule: 'P2',
    plant: (sql, { id, other }) => move(sql, `agent:${id}:promo`, `agent:${other}:promo`, 'send'),
  },
  {
    says: 'promotional credits that became a reward without the permission',
    rule: 'P2',
    plant: (sql, { id }) =>
      sql`delete from promo_crossings c using transfers t
        where t.id = c.transfer_id and t.kind = 'escrow' and ${id}::text is not null`,
  },
  {
    says: 'a permission for a movement that is not there',
    rule: 'P2',
    plant: (sql) => sql`insert into promo_crossings values (gen_random_uuid(), now())`,
  },
  {
    says: 'cash that the treasury gave away',
    rule: 'C1',
    plant: (sql, { id }) => move(sql, 'treasury:fees', `agent:${id}:cash`, 'refund'),
  },
  {
    says: 'cash that came from promotional credits',
    rule: 'C1',
    plant: (sql, { id, other }) => move(sql, `agent:${id}:promo`, `referral:${other}`, 'charge'),
  },
  {
    says: 'a grant that the ledger does not know',
    rule: 'G1',
    plant: (sql, { id }) => sql`insert into operator_grants
      values (gen_random_uuid(), ${id}, 5, 'x', 'gas grant', now())`,
  },
  {
    says: 'a grant of another amount',
    rule: 'G1',
    plant: (sql) => sql`update operator_grants set amount_micros = amount_micros + 1`,
  },
]
