import {
  ATTESTATION_INVARIANTS,
  ATTESTATION_TREE_INVARIANT,
  findAttestationTreeViolations,
} from './attestation-invariants.ts'
import { PROMO_CASH_SEPARATION_INVARIANTS } from './credit-invariants.ts'
import { FLEET_INVARIANTS } from './fleet-invariants.ts'
import { COMMUNITY_TOOL_INVARIANTS } from './community-tool-invariants.ts'
import { HIVE_INVARIANTS } from './hive-invariants.ts'
import {
  findJournalArchiveViolations,
  JOURNAL_ARCHIVE_FILES_INVARIANT,
} from './verify-archived-journal-files.ts'
import { findJournalFoldViolations, JOURNAL_FOLD_INVARIANT } from './journal-replay-invariant.ts'
import { JOURNAL_INVARIANTS } from './journal-invariants.ts'
import { MEMORY_MARKETPLACE_INVARIANTS } from './memory-marketplace-invariants.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { TASK_PASS_INVARIANTS } from './task-pass-invariants.ts'
import { VAULT_INVARIANTS } from './vault-invariants.ts'
import {
  snapshotAmountSql,
  ACCOUNT_BALANCES_SQL,
  type DatabaseInvariant,
} from './database-invariant.ts'

/** The result of one invariant. */
export interface InvariantCheckResult {
  readonly rule: string
  readonly says: string
  /** Rows checked. */
  readonly checked: number
  /** Violating rows, at most `MAX_SAMPLES`; empty on a sound database. */
  readonly broken: readonly Record<string, unknown>[]
}

const MAX_SAMPLES = 10

const MONEY_STATE_SQL = `a.state->'value'->>'money'`
/** The invariants of the ledger. */
const INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'I1',
    description: 'every transfer moves a positive amount between two different accounts',
    countSql: 'select count(*) as n from transfers',
    violationsSql:
      'select id, debit, credit, amount_micros from transfers where amount_micros <= 0 or debit = credit',
  },
  {
    id: 'I2',
    description: 'no account of an agent, fleet, bounty or pool is below zero',
    countSql: `select count(*) as n from (${ACCOUNT_BALANCES_SQL}) b`,
    violationsSql: `select account, balance from (${ACCOUNT_BALANCES_SQL}) b where balance < 0
      and (account like 'agent:%' or account like 'fleet:%' or account like 'referral:%' or account like 'bounty:%' or account like 'pass:%' or account like 'royalty:%')`,
  },
  {
    id: 'I3',
    description: 'balances in snapshots, with unabsorbed inbox messages, equal the ledger',
    countSql: `select count(*) as n from actors where kind = 'agent'`,
    // The promotional part of held credits equals that of the holds and of loans not yet absorbed.
    violationsSql: `with told as (select receiver, event from inbox where receiver_kind = 'agent' and absorbed_at is null),
        agents as (select a.id, a.state->'context' as c, coalesce((select sum(${snapshotAmountSql(`h.value->'promo'`)})
            from jsonb_each(a.state->'context'->'holds') h), 0) + coalesce((
              select sum(${snapshotAmountSql(`t.event->'bonus'`)}) from told t where t.receiver = a.id), 0) as held_promo
          from actors a where a.kind = 'agent'),
        parts as (select a.id, a.held_promo, part, coalesce((a.c->part->>'$n')::bigint, 0) + coalesce((
            select sum(${snapshotAmountSql(`t.event->part`)}) from told t where t.receiver = a.id), 0) as balance
          from agents a cross join unnest(array['promo', 'cash', 'held', 'pending']) part),
        snapshots as (select 'agent:' || id || ':' || part as account,
            (case part when 'held' then balance - held_promo else balance end)::bigint as balance from parts
          union all select 'agent:' || id || ':held:promo', held_promo::bigint from agents)
      select account, s.balance as snapshot, coalesce(b.balance, 0) as ledger from snapshots s
      full join (select * from (${ACCOUNT_BALANCES_SQL}) x where account like 'agent:%') b using (account)
      where s.balance is distinct from coalesce(b.balance, 0)`,
  },
  {
    id: 'I4',
    description: 'held credits are the sum of the open holds, and no hold has passed its expiry',
    countSql: `select count(*) as n from actors a, jsonb_object_keys(a.state->'context'->'holds') where a.kind = 'agent'`,
    violationsSql: `with holds as (
        select a.id, h.key as call_id, ${snapshotAmountSql(`h.value->'promo'`)} + ${snapshotAmountSql(`h.value->'cash'`)} as amount
          from actors a, jsonb_each(a.state->'context'->'holds') h where a.kind = 'agent')
      select a.id, ${snapshotAmountSql(`a.state->'context'->'held'`)} as held, coalesce(sum(h.amount), 0) as holds,
             'sum' as why from actors a left join holds h on h.id = a.id where a.kind = 'agent'
       group by a.id, a.state having ${snapshotAmountSql(`a.state->'context'->'held'`)} <> coalesce(sum(h.amount), 0)
      union all
      select h.id, h.amount, 0, 'no timer, or overdue' from holds h
        left join timers t on t.aggregate_id = h.id and t.id = 'hold:' || h.call_id
       where t.id is null or t.due_at < now() - interval '90 seconds'`,
  },
  {
    id: 'I5a',
    description:
      'the spend of a task is the sum of its calls, and with its holds within its budget',
    countSql: `select count(*) as n from actors where kind = 'taskSession'`,
    violationsSql: `select * from (select a.id, ${snapshotAmountSql(`a.state->'context'->'spent'`)} as spent,
             ${snapshotAmountSql(`a.state->'context'->'held'`)} as held, ${snapshotAmountSql(`a.state->'context'->'budget'`)} as budget,
             coalesce((select sum(cost_micros)::bigint from calls c
                        where c.owner = a.aggregate_id and c.task_id = a.id::uuid), 0) as calls
        from actors a where a.kind = 'taskSession') t where spent <> calls or spent + held > budget`,
  },
  {
    id: 'I5b',
    description:
      'the spend of a Backpack, in total and per window, is the sum of its calls and transfers, within its fuses',
    countSql: `select count(*) as n from actors where kind = 'backpack'`,
    violationsSql: `with packs as (select a.id, a.aggregate_id, a.state->'context' as c from actors a where a.kind = 'backpack'),
      sums as (select p.*, coalesce(sum(l.cost_micros), 0)::bigint as total,
          coalesce(sum(l.cost_micros) filter (where to_char(l.at at time zone 'UTC', 'YYYY-MM-DD') = c->>'day'), 0)::bigint as today,
          coalesce(sum(l.cost_micros) filter (where to_char(l.at at time zone 'UTC', 'YYYY-MM') = c->>'month'), 0)::bigint as month,
          coalesce(max(l.cost_micros), 0)::bigint as largest
        from packs p left join calls l on l.backpack_id = p.id and l.owner = p.aggregate_id
        group by p.id, p.aggregate_id, p.c),
      untouched as (select s.*, not exists (select from journal j where j.aggregate_id = s.aggregate_id
          and j.command->>'name' = 'backpack.set') and not exists (select from archived_journal r
            where r.aggregate_id = s.aggregate_id and r.sets_backpack) as fixed from sums s)
      select id, total, today, month, c->'fuse' as fuse from untouched
       where total <> ${snapshotAmountSql(`c->'spentTotal'`)} or today <> ${snapshotAmountSql(`c->'spentDay'`)}
          or month <> ${snapshotAmountSql(`c->'spentMonth'`)}
          or (fixed and (today > (c->'fuse'->'perDay'->>'$n')::bigint
            or month > (c->'fuse'->'perMonth'->>'$n')::bigint
            or largest > (c->'fuse'->'perCall'->>'$n')::bigint))`,
  },
  {
    id: 'I5c',
    description:
      'each slot of a schedule is charged once, at the cost of its run, within its budget',
    countSql: `select count(*) as n from schedule_runs`,
    violationsSql: `with charged as (select owner, idempotency_key as key, count(*) as times, min(call_id::text) as call_id,
          sum(cost_micros)::bigint as cost from calls
          where idempotency_key like 'schedule %' and status = 'ok' group by 1, 2),
        ran as (select agent_id::text as owner, 'schedule ' || schedule_id || ' ' || (extract(epoch from slot) * 1000)::bigint as key,
          call_id::text, cost_micros as cost, budget_micros as budget, ok from schedule_runs)
      select coalesce(r.owner, c.owner) as owner, coalesce(r.key, c.key) as key, c.times, r.cost, c.cost as charged, r.budget
        from ran r full join charged c using (owner, key)
       where (r.ok or r.ok is null) and (c.times is distinct from 1 or r.call_id is distinct from c.call_id
          or r.cost is distinct from c.cost or r.cost > r.budget)
          or not r.ok and (r.cost <> 0 or c.times is not null)`,
  },
  {
    id: 'I5d',
    description:
      'the spend of a key with a cap, in total and per window, is the sum of its calls and transfers, within its caps',
    countSql: `select count(*) as n from actors a, jsonb_object_keys(a.state->'context'->'keySpent') where a.kind = 'agent'`,
    violationsSql: `with counted as (select a.id as owner, k.key as id, ${snapshotAmountSql('k.value')} as spent,
          a.state->'context'->'keyWindows'->k.key as w
          from actors a, jsonb_each(a.state->'context'->'keySpent') k where a.kind = 'agent'),
        caps as (select coalesce(spending_id, id)::text as id, min(cap_micros) as total,
          min(cap_per_day_micros) as day, min(cap_per_month_micros) as month from api_keys group by 1),
        done as (select c.owner, coalesce(k.spending_id, c.key_id)::text as id, c.cost_micros, c.at at time zone 'UTC' as at
          from calls c left join api_keys k on k.id = c.key_id where c.key_id is not null and c.cost_micros > 0),
        sums as (select c.*, coalesce(sum(d.cost_micros), 0)::bigint as total,
          coalesce(sum(d.cost_micros) filter (where to_char(d.at, 'YYYY-MM-DD') = w->>'day'), 0)::bigint as today,
          coalesce(sum(d.cost_micros) filter (where to_char(d.at, 'YYYY-MM') = w->>'month'), 0)::bigint as month
          from counted c left join done d using (owner, id) group by c.owner, c.id, c.spent, c.w)
      select s.owner, s.id, s.spent, s.total, s.today, s.month from sums s left join caps on caps.id = s.id
       where s.spent <> s.total or s.spent > caps.total or s.today > caps.day or s.month > caps.month
          or (w is not null and (s.today <> ${snapshotAmountSql(`w->'spentDay'`)} or s.month <> ${snapshotAmountSql(`w->'spentMonth'`)}))`,
  },
  {
    id: 'S1',
    description:
      'only enabled schedules have a timer, for the next slot; paused ones of fleet members are listed to resume',
    countSql: `select count(*) as n from actors where kind = 'schedule'`,
    violationsSql: `with said as (select a.aggregate_id, a.id, a.state->>'value' as state, a.state->'context'->>'ended' as ended,
          a.state->'context'->>'pausedFor' as barred,
          case a.state->>'value' when 'enabled' then a.state->'context'->>'slot' end as slot
          from actors a where a.kind = 'schedule'),
        timed as (select aggregate_id, input->>'scheduleId' as id, input->>'slot' as slot from timers
          where command = 'schedule.run')
      select coalesce(s.id, t.id) as id, s.state, s.slot, t.slot as timer from said s
        full join timed t using (aggregate_id, id)
       where s.slot is distinct from t.slot or (s.state = 'enabled' and s.slot is null)
      union all
      select s.id, s.state, s.ended, 'not looked after' from said s
        join actors o on o.aggregate_id = s.aggregate_id and o.kind = 'agent'
        left join underfunded_schedules w on w.schedule_id::text = s.id and w.slot::text = s.ended
       where s.state = 'paused' and s.barred is null and o.state->'context'->>'fleetId' is not null and w.slot is null`,
  },
  {
    id: 'I6',
    description: 'each call is charged once, exactly its price, and every charge belongs to a call',
    countSql: 'select count(*) as n from calls where tool is not null',
    // A call that a task pass pays costs its limits the list price, and its pass the price of the pass.
    violationsSql: `with charged as (select call_id, sum(amount_micros)::bigint as amount,
            max(split_part(debit, ':', 2)) filter (where debit like 'pass:%') as pass_id from transfers
          where kind in ('charge', 'fee', 'share') group by call_id),
        priced as (select call_id, sum(case when rail = 'pass' and cost_micros > 0 then t.price_micros
            else cost_micros end)::bigint as cost, count(*) as rows
          from calls left join charged using (call_id) left join task_passes t on t.pass_id::text = charged.pass_id
          where tool is not null group by call_id)
      select call_id, p.cost, p.rows, c.amount from priced p full join charged c using (call_id)
       where coalesce(p.cost, 0) <> coalesce(c.amount, 0) or p.rows > 1 or (p.call_id is null)`,
  },
  {
    id: 'I7',
    description:
      'a payment settles once, in one transfer on a chain, and the ledger has exactly its price',
    countSql: `select count(*) as n from settlements`,
    violationsSql: `with settled as (select a.id, ${snapshotAmountSql(`a.state->'context'->'price'`)} as price
          from actors a where a.kind = 'settlement' and ${MONEY_STATE_SQL} = 'settled'),
        moves as (select memo as id, 1 as times, amount_micros as amount from transfers
          where debit like 'world:%' and (kind = 'settlement' or (kind = 'deposit' and memo like 'stl\\_%'))
          union all select memo, -1, -amount_micros from transfers
          where credit like 'world:%' and kind = 'reorg' and memo like 'stl\\_%'),
        booked as (select id, sum(times) as times, sum(amount)::bigint as amount from moves
          group by id having sum(times) <> 0 or sum(amount) <> 0),
        arrived as (select ref as id, count(*) as times from chain_transfers where kind = 'settlement' group by ref)
      select coalesce(s.id, b.id, a.id) as id, s.price, b.amount, 'settled' as why
        from settled s full join booked b using (id) full join arrived a using (id)
       where s.price is distinct from b.amount or b.times is distinct from 1 or a.times is distinct from 1
      union all
      select min(id), null, null, 'nonce' from settlements
       group by chain, asset, payer, nonce having count(distinct id) > 1`,
  },
  {
    id: 'I7b',
    description:
      'the clearing account of a chain is what was delivered but not settled, minus what settled but was not delivered',
    countSql: `select count(*) as n from actors where kind = 'settlement'`,
    violationsSql: `with payments as (select 'owed:' || (a.state->'context'->>'chain') as account, ${MONEY_STATE_SQL} as money,
          a.state->'value'->>'delivery' as delivery, ${snapshotAmountSql(`a.state->'context'->'price'`)} as price,
          a.state->'context'->'purpose'->>'kind' as purpose,
          coalesce((a.state->'context'->>'credited')::boolean, false) or exists (select from inbox i
            where i.absorbed_at is null and i.event->>'type' = 'UNDO_DEPOSIT' and i.event->>'to' = 'owed'
              and i.event->>'id' = a.id) as credited,
          exists (select from inbox i where i.receiver = a.aggregate_id and i.absorbed_at is null
            and i.event->>'type' = 'DELIVERED' and i.event->>'settlement' = a.id
            and i.event->>'callId' = a.state->'context'->'runner'->>'callId') as told
          from actors a where a.kind = 'settlement'),
        owed as (select account, sum(case
            when credited then -price
            when purpose <> 'call' then 0
            when money = 'settled' and delivery = 'waiting' and not told then price
            when money = 'settled' or (money = 'lost' and delivery = 'delivered') then 0
            when delivery = 'delivered' or told then -price else 0 end)::bigint as amount
          from payments group by account)
      select account, o.amount as expected, b.balance as ledger from owed o
        full join (select * from (${ACCOUNT_BALANCES_SQL}) x where account like 'owed:%') b using (account)
       where coalesce(o.amount, 0) <> coalesce(b.balance, 0)`,
  },
  {
    id: 'I7c',
    description: 'the amount a payer has in flight is the sum of its open settlements',
    countSql: `select count(*) as n from actors where kind = 'payer'`,
    violationsSql: `with open as (select a.aggregate_id, count(*) as n, sum(${snapshotAmountSql(`a.state->'context'->'price'`)})::bigint as price
          from actors a where a.kind = 'settlement'
           and ${MONEY_STATE_SQL} in ('claimed', 'due', 'submitted', 'unknown') group by 1)
      select p.id, ${snapshotAmountSql(`p.state->'context'->'inFlight'`)} as in_flight, coalesce(o.price, 0) as open
        from actors p left join open o on o.aggregate_id = p.aggregate_id where p.kind = 'payer'
         and (${snapshotAmountSql(`p.state->'context'->'inFlight'`)} <> coalesce(o.price, 0) or coalesce(o.n, 0) <>
           (select count(*) from jsonb_object_keys(p.state->'context'->'reservations')))`,
  },
  {
    id: 'I8',
    description:
      'the escrow of a bounty came from its poster, and was paid once to its claimer or returned once',
    countSql: `select count(*) as n from actors where kind = 'bounty'`,
    violationsSql: `with parts as (select a.id, a.state->>'value' as state, p.*, a.state->'context'->>'posterId' as poster,
            coalesce(a.state->'context'->>'claimerId', a.state->'context'->>'posterId') as receiver
          from actors a, lateral (values (':promo', ':promo', ${snapshotAmountSql(`a.state->'context'->'promo'`)}),
            ('', ':cash', ${snapshotAmountSql(`a.state->'context'->'cash'`)})) p(escrow, own, amount)
         where a.kind = 'bounty' and p.amount <> 0),
        due as (select 'agent:' || poster || own as debit, 'bounty:' || id || escrow as credit, 'escrow' as kind, amount
          from parts
          union all select 'bounty:' || id || escrow, 'agent:' || receiver || own,
            case state when 'claimed' then 'bounty' else 'escrow_back' end, amount from parts where state <> 'open'),
        booked as (select debit, credit, kind, count(*) as times, sum(amount_micros)::bigint as amount from transfers
          where debit like 'bounty:%' or credit like 'bounty:%' group by debit, credit, kind)
      select debit, credit, kind, d.amount as due, b.amount as booked, b.times
        from due d full join booked b using (debit, credit, kind)
       where d.amount is distinct from b.amount or b.times is distinct from 1`,
  },
  {
    id: 'I9',
    description:
      'the shares of a price sum to it: 82 % rounded down to the tools and the referrer, the rest to the treasury',
    countSql: `select count(*) as n from calls where cost_micros > 0 and tool is not null`,
    violationsSql: `select c.call_id, c.cost_micros, t.tools from (
        select l.call_id, l.tool, case when l.rail = 'pass' then (select p.price_micros from task_passes p
            where p.pass_id::text = (select split_part(m.debit, ':', 2) from ledger m
              where m.owner = l.owner and m.call_id = l.call_id and m.debit like 'pass:%' limit 1))
          else l.cost_micros end as cost_micros from calls l) c
      left join (select call_id, sum(amount_micros) filter (where kind = 'charge')::bigint as tools
                   from transfers where kind in ('charge', 'fee') group by call_id) t using (call_id)
      where c.cost_micros > 0 and c.tool is not null and coalesce(t.tools, 0) <> c.cost_micros * 8200 / 10000
        and not exists (select from transfers s where s.kind = 'share' and s.call_id = c.call_id)`,
  },
  {
    id: 'U1',
    description:
      'the daily usage of an owner is the count of its answered calls and the sum of their costs',
    countSql: 'select count(*) as n from usage_daily',
    violationsSql: `with counted as (select owner, (at at time zone 'UTC')::date as day, count(*) filter (where status = 'ok') as calls,
          sum(cost_micros)::bigint as spent from calls where tool is not null group by 1, 2)
      select owner, day, u.calls as kept, c.calls, u.spent_micros, c.spent from usage_daily u
        full join counted c using (owner, day)
       where u.calls is distinct from c.calls or u.spent_micros is distinct from c.spent`,
  },
  {
    id: 'K1',
    description: 'an Idempotency-Key of an owner has one reply while that reply is repeated',
    countSql: 'select count(*) as n from calls where idempotency_key is not null',
    // A secret returned to a keyless caller is repeated for ten minutes (decision 56).
    violationsSql: `select owner, idempotency_key, at, since_the_last from (
        select owner, idempotency_key, at,
               agent_id is null and response like '{"status":___,"body":null,"sealed":"%' as brief,
               at - lag(at) over (partition by owner, idempotency_key order by at) as since_the_last
          from calls where idempotency_key is not null and at > now() - interval '24 hours') a
      where since_the_last < case when brief then interval '10 minutes' else interval '24 hours' end`,
  },
  {
    id: 'B1',
    description: 'the row of a bounty equals its actor, and an open bounty has its timer',
    countSql: 'select count(*) as n from bounties',
    violationsSql: `with said as (select a.id, a.state->>'value' as state, a.state->'context' as c,
          exists (select from timers t where t.aggregate_id = a.aggregate_id and t.command = 'bounty.expire') as timed
          from actors a where a.kind = 'bounty')
      select coalesce(s.id, b.bounty_id::text) as id, s.state, b.status, s.timed from said s
        full join bounties b on b.bounty_id::text = s.id
       where s.state is distinct from b.status or s.c->>'claimerId' is distinct from b.claimed_by::text
          or s.c->>'closedReason' is distinct from b.closed_reason
          or ${snapshotAmountSql(`s.c->'promo'`)} + ${snapshotAmountSql(`s.c->'cash'`)} is distinct from b.reward_micros
          or s.timed is distinct from (s.state = 'open')`,
  },
  {
    id: 'D1',
    description: 'a radio drop has given each of its slots at most once',
    countSql: `select count(*) as n from actors where kind = 'drop'`,
    violationsSql: `with given as (select memo as code, count(*) as times, count(distinct credit) as agents,
          sum(amount_micros)::bigint as amount from transfers where kind = 'drop' group by memo),
        taken as (select a.id as code, jsonb_array_length(a.state->'context'->'redeemers') as redeemed,
          (a.state->'context'->>'slots')::int as slots, ${snapshotAmountSql(`a.state->'context'->'credit'`)} as credit
          from actors a where a.kind = 'drop')
      select coalesce(t.code, g.code) as code, t.redeemed, t.slots, g.times, g.amount
        from taken t full join given g using (code)
       where t.code is null or t.redeemed > t.slots or t.redeemed <> coalesce(g.times, 0)
          or coalesce(g.times, 0) <> coalesce(g.agents, 0)
          or coalesce(g.amount, 0) <> t.redeemed * t.credit`,
  },
  ...JOURNAL_INVARIANTS,
  ...FLEET_INVARIANTS,
  ...TASK_PASS_INVARIANTS,
  ...PROMO_CASH_SEPARATION_INVARIANTS,
  ...HIVE_INVARIANTS,
  ...COMMUNITY_TOOL_INVARIANTS,
  ...VAULT_INVARIANTS,
  ...MEMORY_MARKETPLACE_INVARIANTS,
  ...ATTESTATION_INVARIANTS,
]

/**
 * Checks every invariant in one consistent snapshot of a live database; changes nothing. `archiveDir` has
 * the files of archived months.
 */
export function verifyDatabaseInvariants(
  sql: Sql,
  archiveDir: string | null = null,
): Promise<InvariantCheckResult[]> {
  return sql.begin('isolation level repeatable read read only', async (tx) => {
    const findings: InvariantCheckResult[] = []
    for (const { id, description, countSql, violationsSql } of INVARIANTS) {
      const [row] = await tx.unsafe<{ n: bigint }[]>(countSql)
      const rows = await tx.unsafe<Record<string, unknown>[]>(
        `${violationsSql} limit ${MAX_SAMPLES}`,
      )
      findings.push({
        rule: id,
        says: description,
        checked: Number(row?.n ?? 0n),
        broken: [...rows],
      })
    }
    const { id, description } = JOURNAL_FOLD_INVARIANT
    const snapshot = tx as unknown as Sql
    const journal = await findJournalFoldViolations(snapshot, MAX_SAMPLES, archiveDir)
    findings.push({ rule: id, says: description, ...journal })
    const archives = await findJournalArchiveViolations(snapshot, archiveDir)
    findings.push({
      rule: JOURNAL_ARCHIVE_FILES_INVARIANT.id,
      says: JOURNAL_ARCHIVE_FILES_INVARIANT.description,
      ...archives,
    })
    const tree = await findAttestationTreeViolations(tx as unknown as Sql, MAX_SAMPLES)
    findings.push({
      rule: ATTESTATION_TREE_INVARIANT.id,
      says: ATTESTATION_TREE_INVARIANT.description,
      ...tree,
    })
    return findings
  })
}
