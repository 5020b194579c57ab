import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import type { LedgerCorruption } from './ledger-corruptions.ts'

/** Corruptions of the marketplace. */
export const memoryMarketplaceCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'a sale that was paid twice',
    rule: 'M1',
    apply: (
      sql,
    ) => sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, memo, at)
      select ${newUuidV7(Date.now())}, owner, debit, credit, amount_micros, kind, call_id, memo, at
        from ledger where kind = 'sale' limit 1`,
  },
  {
    description: 'a sale without a purchase',
    rule: 'M1',
    apply: (sql) => sql`delete from marketplace_purchases where purchase_id =
      (select max(purchase_id::text)::uuid from marketplace_purchases)`,
  },
  {
    description: 'a purchase at another price',
    rule: 'M1',
    apply: (sql) => sql`update marketplace_listings set price_micros = price_micros + 1`,
  },
  {
    description: 'a purchase without its copies',
    rule: 'M1',
    apply: (sql) => sql`delete from vault_memories where origin->>'by' = 'listing'`,
  },
  {
    description: 'a purchase that its buyer does not own',
    rule: 'M1',
    apply: (sql) => sql`update actors set state = jsonb_set(state, '{context,owned}', '[]')
      where kind = 'tally'`,
  },
  {
    description: 'a withdrawn listing that is shown as open',
    rule: 'M2',
    apply: (sql) => sql`update marketplace_listings set withdrawn_at = null`,
  },
  {
    description: 'a rating that counts twice',
    rule: 'M2',
    apply: (sql) => sql`insert into marketplace_ratings select * from marketplace_ratings limit 1`,
  },
  {
    description: 'a listing that lost a memory',
    rule: 'M2',
    apply: (sql) => sql`delete from marketplace_entries`,
  },
]
