import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import type { InvariantSampleDatabase } from './sample-database-for-invariants.ts'

/** A corruption and the rule that must report it. */
export interface LedgerCorruption {
  readonly description: string
  readonly rule: string
  readonly apply: (sql: Sql, day: InvariantSampleDatabase) => Promise<unknown>
}

/** Corruptions of the spend of bound keys. */
export const keySpendCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'a send in a Backpack that is missing from its log',
    rule: 'I5b',
    apply: (sql) => sql`delete from calls where operation = 'agent_send'`,
  },
  {
    description: 'a key with a cap that did not count a send',
    rule: 'I5d',
    apply: (sql) => sql`delete from calls where operation = 'agent_send'`,
  },
  {
    description: 'a day of a key that did not count a call',
    rule: 'I5d',
    apply: (sql) => sql`
      update actors set state = jsonb_set(state, array['context', 'keyWindows', k.id, 'spentDay'], '{"$n":"1"}')
        from (select a.id as agent, jsonb_object_keys(a.state->'context'->'keyWindows') as id
                from actors a where a.kind = 'agent') k
       where kind = 'agent' and actors.id = k.agent`,
  },
]

/** Corruptions of schedules. */
export const scheduleCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'a run of a schedule with another price',
    rule: 'I5c',
    apply: (sql) => sql`update schedule_runs set cost_micros = 1 where ok`,
  },
  {
    description: 'a run of a schedule above its budget',
    rule: 'I5c',
    apply: (sql) => sql`update schedule_runs set budget_micros = 19999`,
  },
  {
    description: 'a slot of a schedule that was charged without a run',
    rule: 'I5c',
    apply: (sql) => sql`delete from schedule_runs`,
  },
  {
    description: 'an enabled schedule without its timer',
    rule: 'S1',
    apply: (sql) => sql`delete from timers where command = 'schedule.run'`,
  },
  {
    description: 'a timer for another slot',
    rule: 'S1',
    apply: (sql) => sql`update timers set input = jsonb_set(input, '{slot}', '1')
      where command = 'schedule.run'`,
  },
  {
    description: 'a timer of a disabled schedule',
    rule: 'S1',
    apply: (sql) => sql`update actors set state = jsonb_set(state, '{value}', '"disabled"')
      where kind = 'schedule' and state->>'value' = 'enabled'`,
  },
  {
    description: 'a timer without a schedule',
    rule: 'S1',
    apply: (sql) => sql`
      insert into timers select aggregate_id, 'agent', 'schedule:x', now(), 'schedule.run',
        '{"scheduleId":"x","slot":1}' from actors where kind = 'schedule' limit 1`,
  },
  {
    description: 'a paused schedule of a fleet without a row in underfunded_schedules',
    rule: 'S1',
    apply: (sql) => sql`delete from underfunded_schedules`,
  },
]

/** Corruptions of fleet membership and loans. */
export const fleetCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'an agent that draws from a fleet without membership',
    rule: 'F2',
    apply: (sql, { other }) => sql`update actors
      set state = jsonb_set(state, '{context,fleetId}', '"018f6f7a-0000-7000-8000-00000000000f"')
      where kind = 'agent' and id = ${other}`,
  },
  {
    description: 'a member that draws without a pool',
    rule: 'F2',
    apply: (sql) => sql`update actors set state = jsonb_set(state, '{context,fleetId}', 'null')
      where kind = 'agent' and id in (select agent_id::text from fleet_members)`,
  },
  {
    description: 'a loan returned to another fleet',
    rule: 'F3',
    apply: (sql) => sql`
      insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, at)
        select gen_random_uuid(), owner, debit, 'fleet:018f6f7a-0000-7000-8000-00000000000f',
               amount_micros, kind, call_id, at
          from transfers where kind = 'draw_back' limit 1`,
  },
  {
    description: 'a loan in a snapshot without a draw',
    rule: 'F3',
    apply: (sql) => sql`
      update actors set state = jsonb_set(state, '{context,holds,x}',
          '{"loans": [{"fleetId": "018f6f7a-0000-7000-8000-00000000000f", "promo": {"$n": "0"}, "cash": {"$n": "5"}}]}')
        where kind = 'agent'`,
  },
]

const insertCorruptTransfer = (sql: Sql, debit: string, credit: string, kind: string) =>
  sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
    values (gen_random_uuid(), 'x', ${debit}, ${credit}, 5, ${kind}, now())`

/** Corruptions that turn promotional credits into cash or move them to others, or create cash. */
export const creditCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'promotional credits paid to a referrer as cash',
    rule: 'P1',
    apply: async (sql, { id, other }) => {
      await insertCorruptTransfer(sql, `agent:${id}:promo`, `referral:${other}`, 'charge')
      await insertCorruptTransfer(sql, `referral:${other}`, `agent:${other}:cash`, 'payout')
    },
  },
  {
    description: 'promotional credits returned by a hold as cash',
    rule: 'P1',
    apply: (sql, { id }) =>
      insertCorruptTransfer(sql, `agent:${id}:held:promo`, `agent:${id}:cash`, 'release'),
  },
  {
    description: 'promotional credits created from deposits',
    rule: 'P1',
    apply: (sql, { id }) =>
      insertCorruptTransfer(sql, `agent:${id}:cash`, `agent:${id}:promo`, 'send'),
  },
  {
    description: 'promotional credits sent without permission',
    rule: 'P2',
    apply: (sql, { id, other }) =>
      insertCorruptTransfer(sql, `agent:${id}:promo`, `agent:${other}:promo`, 'send'),
  },
  {
    description: 'promotional credits used for a reward without permission',
    rule: 'P2',
    apply: (sql, { id }) =>
      sql`delete from promo_transfers c using transfers t
        where t.id = c.transfer_id and t.kind = 'escrow' and ${id}::text is not null`,
  },
  {
    description: 'a permission without its movement',
    rule: 'P2',
    apply: (sql) => sql`insert into promo_transfers values (gen_random_uuid(), now())`,
  },
  {
    description: 'cash paid by the treasury',
    rule: 'C1',
    apply: (sql, { id }) =>
      insertCorruptTransfer(sql, 'treasury:fees', `agent:${id}:cash`, 'refund'),
  },
  {
    description: 'cash created from promotional credits',
    rule: 'C1',
    apply: (sql, { id, other }) =>
      insertCorruptTransfer(sql, `agent:${id}:promo`, `referral:${other}`, 'charge'),
  },
  {
    description: 'a grant that is missing from the ledger',
    rule: 'G1',
    apply: (sql, { id }) => sql`insert into operator_grants
      values (gen_random_uuid(), ${id}, 5, 'x', 'gas grant', now())`,
  },
  {
    description: 'a grant of another amount',
    rule: 'G1',
    apply: (sql) => sql`update operator_grants set amount_micros = amount_micros + 1`,
  },
]
