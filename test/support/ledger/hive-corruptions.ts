import type { LedgerCorruption } from './ledger-corruptions.ts'

/** Corruptions of royalties, shares and watches. */
export const hiveCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'a share without its event',
    rule: 'H1',
    apply: (sql) => sql`delete from inbox where id like 'share:%'`,
  },
  {
    description: 'a fork with another royalty for its author',
    rule: 'H1',
    apply: (sql) => sql`update strategy_forks set royalty_micros = 10000`,
  },
  {
    description: 'a paid royalty that is owed again',
    rule: 'R1',
    apply: (sql) => sql`update royalties set paid_by = null`,
  },
  {
    description: 'a royalty without a read',
    rule: 'R1',
    apply: (sql) => sql`delete from hive_reads`,
  },
  {
    description: 'royalties in cash above the price of their call',
    rule: 'R3',
    apply: (sql) => sql`update royalties set promo = false, amount_micros = 1000000`,
  },
  {
    description: 'a pool above its ledger balance',
    rule: 'R1',
    apply: (sql) => sql`update royalty_pool set cash_micros = cash_micros + 1`,
  },
  {
    description: 'a pool with more than its share of the fees',
    rule: 'R1',
    apply: async (sql) => {
      await sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
        values (gen_random_uuid(), 'x', 'treasury:fees', 'royalty:pool', 1000000, 'royalty_feed', now())`
      await sql`update royalty_pool set cash_micros = cash_micros + 1000000`
    },
  },
  {
    description: 'a sum without royalties',
    rule: 'R2',
    apply: (sql) => sql`update royalty_changes set earned_micros = earned_micros + 1
      where id = (select min(id) from royalty_changes)`,
  },
  {
    description: 'royalties without a sum',
    rule: 'R2',
    apply: (sql) => sql`delete from royalty_changes`,
  },
  {
    description: 'a watch that is missing from the list of its agent',
    rule: 'W1',
    apply: (sql) => sql`update actors set state = jsonb_set(state, '{context,watches}', '[]')
      where kind = 'watchList'`,
  },
]
