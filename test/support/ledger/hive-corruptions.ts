import type { LedgerCorruption } from './ledger-corruptions.ts'

/** Corruptions of royalties, shares and watches. */
export const hiveCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'a share that its agent was not told of',
    rule: 'H1',
    apply: (sql) => sql`delete from inbox where id like 'share:%'`,
  },
  {
    description: 'a fork whose author got another royalty',
    rule: 'H1',
    apply: (sql) => sql`update strategy_forks set royalty_micros = 10000`,
  },
  {
    description: 'a royalty that was paid and is owed again',
    rule: 'R1',
    apply: (sql) => sql`update royalties set paid_by = null`,
  },
  {
    description: 'a royalty that nobody has read for',
    rule: 'R1',
    apply: (sql) => sql`delete from hive_reads`,
  },
  {
    description: 'a pool with more than the ledger knows',
    rule: 'R1',
    apply: (sql) => sql`update royalty_pool set cash_micros = cash_micros + 1`,
  },
  {
    description: 'a pool that was fed with more than its share',
    rule: 'R1',
    apply: async (sql) => {
      await sql`insert into transfers (id, owner, debit, credit, amount_micros, kind, at)
        values (gen_random_uuid(), 'x', 'treasury:fees', 'royalty:pool', 1000000, 'royalty_feed', now())`
      await sql`update royalty_pool set cash_micros = cash_micros + 1000000`
    },
  },
  {
    description: 'a sum of royalties that is none',
    rule: 'R2',
    apply: (sql) => sql`update royalty_changes set earned_micros = earned_micros + 1
      where id = (select min(id) from royalty_changes)`,
  },
  {
    description: 'royalties that are summed nowhere',
    rule: 'R2',
    apply: (sql) => sql`delete from royalty_changes`,
  },
  {
    description: 'a watch that no list has',
    rule: 'W1',
    apply: (sql) => sql`update actors set state = jsonb_set(state, '{context,watches}', '[]')
      where kind = 'watchList'`,
  },
]
