import type { LedgerCorruption } from './ledger-corruptions.ts'

/** Corruptions of memories and packs. */
export const vaultCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'an uncounted free write',
    rule: 'V1',
    apply: (sql) => sql`update actors set state = jsonb_set(state, '{context,used}', '{}')
      where kind = 'tally'`,
  },
  {
    description: 'a pack without one of its entries',
    rule: 'V2',
    apply: (sql) => sql`delete from vault_memories where namespace = 'pack:focus-stack'`,
  },
  {
    description: 'a pack that is not owned',
    rule: 'V2',
    apply: (sql) => sql`update actors set state = jsonb_set(state, '{context,owned}', '[]')
      where kind = 'tally'`,
  },
  {
    description: 'an archived memory without a reason',
    rule: 'V3',
    apply: (sql) => sql`update vault_memories set archived_at = now(), archived_as = 'compressed',
      archived_by = gen_random_uuid()`,
  },
  {
    description: 'an uncounted reorganisation',
    rule: 'V3',
    apply: (sql) => sql`delete from vault_consolidations`,
  },
]
