import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import type { LedgerCorruption } from './ledger-corruptions.ts'
import { dropAppendOnlyGuards } from './rewrite-attestations.ts'

/** Corruptions of the attestations, beside a ledger that is sound. */

const unguarded =
  (change: (sql: Sql) => Promise<unknown>): LedgerCorruption['apply'] =>
  async (sql) => {
    await dropAppendOnlyGuards(sql)
    await change(sql)
  }

export const attestationCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'a leaf with another amount',
    rule: 'A1',
    apply: unguarded(
      (sql) => sql`update attestation_leaves set amount_micros = 7 where leaf_index = 1`,
    ),
  },
  {
    description: 'a leaf with another salt',
    rule: 'A1',
    apply: unguarded(
      (sql) =>
        sql`update attestation_leaves set salt = decode(repeat('00', 16), 'hex') where leaf_index = 1`,
    ),
  },
  {
    description: 'an old fee without a leaf',
    rule: 'A1',
    apply: (sql) => sql`
      insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
      values (gen_random_uuid(), 'x', 'agent:x:cash', 'treasury:fees', 5, 'tip_fee', now() - interval '1 hour')`,
  },
  {
    description: 'a leaf with another hash',
    rule: 'A2',
    apply: unguarded(
      (sql) => sql`update attestation_leaves set hash = sha256('x') where leaf_index = 1`,
    ),
  },
  {
    description: 'a missing leaf',
    rule: 'A2',
    apply: unguarded((sql) => sql`delete from attestation_leaves where leaf_index = 1`),
  },
  {
    description: 'a head with another root',
    rule: 'A2',
    apply: unguarded((sql) => sql`update attestation_heads set root = sha256('x')`),
  },
  {
    description: 'a head that nobody signed',
    rule: 'A2',
    apply: unguarded((sql) => sql`update attestation_heads set note = replace(note, '2', '3')`),
  },
  {
    description: 'another published sum',
    rule: 'A2',
    apply: (sql) => sql`update attestation_totals set amount_micros = amount_micros + 1`,
  },
  {
    description: 'an edge of another tree',
    rule: 'A2',
    apply: (sql) => sql`update attestation_cursor set peaks = sha256('x')`,
  },
  {
    description: 'a published head that is not one of the tree',
    rule: 'A3',
    apply: (sql) => sql`
      insert into attestation_rewinds (tree_size, root, note, found_size) values (99, sha256('x'), 'x', 5)`,
  },
]
