import { MOVEMENTS } from '../core/movements.ts'
import type { Rule } from './rule.ts'

/** The class of an account (`core/movements.ts`), as SQL. */
const classOf = (account: string): string =>
  `regexp_replace(${account}, '^((agent|fleet|bounty|referral):[^:]+|(world|owed):.+)', '\\2\\3')`

/** The listed movements as rows. */
const LISTED = `listed(kind, source, target, crosses) as (values ${Object.entries(MOVEMENTS)
  .flatMap(([kind, { ways }]) =>
    ways.map(({ from, to, crosses }) => `('${kind}', '${from}', '${to}', '${crosses}')`),
  )
  .join(', ')})`

/** Movements that are judged one by one: those of before migration 0039 shared accounts. */
const MOVES = `moves as materialized (
    select id, debit, credit, amount_micros as amount, kind, ${classOf('debit')} as source, ${classOf('credit')} as target
      from transfers t where not exists (select from transfers_before_apart b where b.id = t.id))`

const CASH = `('agent:cash', 'agent:held', 'agent:pending', 'fleet', 'bounty', 'referral', 'royalty:pool')`
const isPromo = (part: string) => `(${part} like '%:promo' and ${part} <> 'grants:promo')`
const total = (condition: string) => `coalesce(sum(amount) filter (where ${condition}), 0)::bigint`

/** What holds of promotional credits and of cash: neither ever becomes the other. */
export const creditRules: readonly Rule[] = [
  {
    rule: 'I11',
    says: 'every movement is one that docs/credits.md lists, and none turns promotional credits into cash',
    count: 'select count(*) as n from transfers',
    broken: `with ${LISTED}, ${MOVES}
      select m.id, m.debit, m.credit, m.kind, m.amount from moves m left join listed l using (kind, source, target)
       where l.kind is null or (l.crosses = 'no' and m.debit like 'agent:%' and m.credit like 'agent:%'
         and split_part(m.debit, ':', 2) <> split_part(m.credit, ':', 2))`,
  },
  {
    rule: 'P1',
    says: 'promotional credits that were granted are spent, held or back at the grants',
    count: `select count(*) as n from transfers where debit = 'grants:promo'`,
    // What feeds the pool of the Hive, or returns from the fees, is no longer spent.
    broken: `with ${MOVES}, sums as (select ${total(`source = 'grants:promo'`)} as granted,
          ${total(`target = 'grants:promo'`)} as returned,
          ${total(`${isPromo('source')} and target in ('platform:tools', 'treasury:fees', 'world', 'owed')`)}
            - ${total(`source = 'treasury:fees' and target like '%:promo'`)} as spent,
          ${total(isPromo('target'))} - ${total(isPromo('source'))} as held from moves)
      select * from sums where granted <> spent + held + returned`,
  },
  {
    rule: 'P2',
    says: 'promotional credits go from one agent to another only where PROMO_TRANSFERABLE allowed it',
    count: `select count(*) as n from promo_crossings`,
    broken: `with ${LISTED}, ${MOVES}
      select m.id, m.debit, m.credit, m.kind, m.amount from moves m join listed l using (kind, source, target)
       where l.crosses = 'switch' and not exists (select from promo_crossings c where c.transfer_id = m.id)
      union all
      select c.transfer_id, null, null, null, null from promo_crossings c
       where not exists (select from moves m where m.id = c.transfer_id)`,
  },
  {
    rule: 'C1',
    says: 'the cash that each account has and gave away came to it as cash, and so in all from chains',
    count: `select count(*) as n from transfers where credit like 'agent:%:cash' or credit like 'world:%' or debit like 'world:%'`,
    broken: `with ${MOVES}
      select credit as account, ${total('true')} as has_and_gave,
             ${total(`source in ${CASH} or source in ('world', 'owed') or (source = 'treasury:fees' and kind = 'royalty_feed')`)} as came
        from moves where target in ${CASH} group by credit
      having ${total(`not (source in ${CASH} or source in ('world', 'owed') or (source = 'treasury:fees' and kind = 'royalty_feed'))`)} > 0
      union all
      select 'all', has_and_gave, came from (select
          ${total(`target in ${CASH}`)} - ${total(`source in ${CASH}`)}
            + ${total(`(source in ${CASH} or source = 'owed') and target in ('platform:tools', 'treasury:fees') and kind <> 'loss'`)}
            as has_and_gave,
          ${total(`source in ('world', 'owed')`)} - ${total(`target in ('world', 'owed')`)}
            + ${total(`source = 'treasury:fees' and (target in ('world', 'owed', 'royalty:pool'))`)}
            - ${total(`source = 'owed' and target = 'treasury:fees' and kind = 'loss'`)}
            + ${total(`${isPromo('source')} and target in ('world', 'owed')`)} as came from moves) t
       where has_and_gave > came`,
  },
  {
    rule: 'G1',
    says: 'what the operator gave is in the ledger once, with its note',
    count: 'select count(*) as n from operator_grants',
    broken: `with booked as (select call_id as grant_id, debit, credit, memo, count(*) as times, sum(amount_micros)::bigint as amount
          from transfers where kind = 'grant' and call_id is not null group by 1, 2, 3, 4)
      select coalesce(g.grant_id, b.grant_id) as grant_id, g.agent_id, g.amount_micros, b.amount, b.times
        from operator_grants g full join booked b using (grant_id)
       where b.times is distinct from 1 or b.amount is distinct from g.amount_micros
          or b.credit is distinct from 'agent:' || g.agent_id || ':promo' or b.memo is distinct from g.note`,
  },
]
