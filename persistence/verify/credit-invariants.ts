import { LEDGER_MOVEMENT_RULES } from '../../domain/ledger-movements.ts'
import type { DatabaseInvariant } from './database-invariant.ts'

/** Invariants of promotional and cash credits. */

/** The class of an account (`domain/ledger-movements.ts`), as SQL. */
const accountClassSql = (account: string): string =>
  `regexp_replace(${account}, '^((agent|fleet|bounty|referral|pass):[^:]+|(world|owed):.+)', '\\2\\3')`

/** The listed movements as rows. */
const LISTED_MOVEMENTS_SQL = `listed(kind, source, target, crosses) as (values ${Object.entries(
  LEDGER_MOVEMENT_RULES,
)
  .flatMap(([kind, { routes }]) =>
    routes.map(({ from, to, crosses }) => `('${kind}', '${from}', '${to}', '${crosses}')`),
  )
  .join(', ')})`

/** All movements with the classes of their accounts. */
const MOVEMENTS_SQL = `moves as materialized (
    select id, debit, credit, amount_micros as amount, kind, ${accountClassSql('debit')} as source, ${accountClassSql('credit')} as target
      from transfers)`

const CASH_ACCOUNTS_SQL = `('agent:cash', 'agent:held', 'agent:pending', 'fleet', 'bounty', 'referral', 'pass', 'royalty:pool')`
const isPromoSql = (part: string) => `(${part} like '%:promo' and ${part} <> 'grants:promo')`
const totalSql = (condition: string) =>
  `coalesce(sum(amount) filter (where ${condition}), 0)::bigint`

/** Promotional credits and cash never become each other. */
export const PROMO_CASH_SEPARATION_INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'I11',
    description:
      'every movement is one that docs/credits.md lists, and none turns promotional credits into cash',
    countSql: 'select count(*) as n from transfers',
    violationsSql: `with ${LISTED_MOVEMENTS_SQL}, ${MOVEMENTS_SQL}
      select m.id, m.debit, m.credit, m.kind, m.amount from moves m left join listed l using (kind, source, target)
       where l.kind is null or (l.crosses = 'no' and m.debit like 'agent:%' and m.credit like 'agent:%'
         and split_part(m.debit, ':', 2) <> split_part(m.credit, ':', 2))`,
  },
  {
    id: 'P1',
    description: 'granted promotional credits are spent, held or returned to the grants',
    countSql: `select count(*) as n from transfers where debit = 'grants:promo'`,
    // What feeds the royalty pool, or returns from the fees, is no longer spent.
    violationsSql: `with ${MOVEMENTS_SQL}, sums as (select ${totalSql(`source = 'grants:promo'`)} as granted,
          ${totalSql(`target = 'grants:promo'`)} as returned,
          ${totalSql(`${isPromoSql('source')} and target in ('platform:tools', 'treasury:fees', 'world', 'owed')`)}
            - ${totalSql(`source = 'treasury:fees' and target like '%:promo'`)} as spent,
          ${totalSql(isPromoSql('target'))} - ${totalSql(isPromoSql('source'))} as held from moves)
      select * from sums where granted <> spent + held + returned`,
  },
  {
    id: 'P2',
    description: 'promotional credits move between agents only if PROMO_TRANSFERABLE allowed it',
    countSql: `select count(*) as n from promo_transfers`,
    violationsSql: `with ${LISTED_MOVEMENTS_SQL}, ${MOVEMENTS_SQL}
      select m.id, m.debit, m.credit, m.kind, m.amount from moves m join listed l using (kind, source, target)
       where l.crosses = 'switch' and not exists (select from promo_transfers c where c.transfer_id = m.id)
      union all
      select c.transfer_id, null, null, null, null from promo_transfers c
       where not exists (select from moves m where m.id = c.transfer_id)`,
  },
  {
    id: 'C1',
    description: 'the cash each account has and has paid arrived as cash, originally from chains',
    countSql: `select count(*) as n from transfers where credit like 'agent:%:cash' or credit like 'world:%' or debit like 'world:%'`,
    violationsSql: `with ${MOVEMENTS_SQL}
      select credit as account, ${totalSql('true')} as has_and_gave,
             ${totalSql(`source in ${CASH_ACCOUNTS_SQL} or source in ('world', 'owed') or (source = 'treasury:fees' and kind = 'royalty_feed')`)} as came
        from moves where target in ${CASH_ACCOUNTS_SQL} group by credit
      having ${totalSql(`not (source in ${CASH_ACCOUNTS_SQL} or source in ('world', 'owed') or (source = 'treasury:fees' and kind = 'royalty_feed'))`)} > 0
      union all
      select 'all', has_and_gave, came from (select
          ${totalSql(`target in ${CASH_ACCOUNTS_SQL}`)} - ${totalSql(`source in ${CASH_ACCOUNTS_SQL}`)}
            + ${totalSql(`(source in ${CASH_ACCOUNTS_SQL} or source = 'owed') and target in ('platform:tools', 'treasury:fees') and kind <> 'loss'`)}
            as has_and_gave,
          ${totalSql(`source in ('world', 'owed')`)} - ${totalSql(`target in ('world', 'owed')`)}
            + ${totalSql(`source = 'treasury:fees' and (target in ('world', 'owed', 'royalty:pool'))`)}
            - ${totalSql(`source = 'owed' and target = 'treasury:fees' and kind = 'loss'`)}
            + ${totalSql(`${isPromoSql('source')} and target in ('world', 'owed')`)} as came from moves) t
       where has_and_gave > came`,
  },
  {
    id: 'G2',
    description: 'half of the fee of each call went to the creator of its agent, where it has one',
    countSql: `select count(*) as n from transfers where kind = 'fee' and credit <> 'treasury:fees'`,
    violationsSql: `with fees as (select owner, call_id, sum(amount_micros)::bigint as fee,
          coalesce(sum(amount_micros) filter (where credit <> 'treasury:fees'), 0)::bigint as share,
          max(split_part(credit, ':', 2)) filter (where credit like 'referral:%') as receiver
          from transfers where kind = 'fee' and call_id is not null group by 1, 2)
      select f.*, a.state->'context'->>'parent' as parent from fees f
        left join actors a on a.kind = 'agent' and a.id = f.owner and a.aggregate_id = f.owner
       where f.share <> case when a.state->'context'->>'parent' is null then 0 else f.fee / 2 end
          or f.receiver <> coalesce(a.state->'context'->>'parent', '')`,
  },
  {
    id: 'G1',
    description: 'each operator grant is in the ledger once, with its note',
    countSql: 'select count(*) as n from operator_grants',
    violationsSql: `with booked as (select call_id as grant_id, debit, credit, memo, count(*) as times, sum(amount_micros)::bigint as amount
          from transfers where kind = 'grant' and call_id is not null group by 1, 2, 3, 4)
      select coalesce(g.grant_id, b.grant_id) as grant_id, g.agent_id, g.amount_micros, b.amount, b.times
        from operator_grants g full join booked b using (grant_id)
       where b.times is distinct from 1 or b.amount is distinct from g.amount_micros
          or b.credit is distinct from 'agent:' || g.agent_id || ':promo' or b.memo is distinct from g.note`,
  },
]
