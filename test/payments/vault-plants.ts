import type { Plant } from './plants.ts'

/** What may be wrong with memories and packs. */
export const vaultPlants: readonly Plant[] = [
  {
    says: 'a free write that nobody has counted',
    rule: 'V1',
    plant: (sql) => sql`update actors set state = jsonb_set(state, '{context,used}', '{}')
      where kind = 'tally'`,
  },
  {
    says: 'a pack that came without an entry',
    rule: 'V2',
    plant: (sql) => sql`delete from vault_memories where namespace = 'pack:focus-stack'`,
  },
  {
    says: 'a pack that is not owned',
    rule: 'V2',
    plant: (sql) => sql`update actors set state = jsonb_set(state, '{context,owned}', '[]')
      where kind = 'tally'`,
  },
  {
    says: 'a memory that is archived for nothing',
    rule: 'V3',
    plant: (sql) => sql`update vault_memories set archived_at = now(), archived_as = 'compressed',
      archived_by = gen_random_uuid()`,
  },
  {
    says: 'an order that nobody has counted',
    rule: 'V3',
    plant: (sql) => sql`delete from vault_orders`,
  },
]
