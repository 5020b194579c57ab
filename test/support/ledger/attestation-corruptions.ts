import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import type { LedgerCorruption } from './ledger-corruptions.ts'
import { dropAppendOnlyGuards, insertUnqueuedFee } from './rewrite-attestations.ts'

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
    apply: unguarded((sql) => sql`update attestation_leaf_packs set amounts[1] = 7`),
  },
  {
    description: 'a fee with two leaves',
    rule: 'A1',
    apply: unguarded((sql) => sql`update attestation_leaf_packs set ledger_ids[1] = ledger_ids[2]`),
  },
  {
    description: 'a fee without a leaf that does not wait',
    rule: 'A1',
    apply: (sql) => insertUnqueuedFee(sql, newUuidV7(Date.now()), 'agent:x:cash'),
  },
  {
    description: 'a leaf that waits as well',
    rule: 'A1',
    apply: (sql) => sql`
      insert into unattested_fees (ledger_ids, call_ids, amounts, kinds, times)
      select ledger_ids[:1], call_ids[:1], amounts[:1], kinds[:1], array[minute]
        from attestation_leaf_packs limit 1`,
  },
  {
    description: 'leaves with other salts',
    rule: 'A2',
    apply: unguarded(
      (sql) => sql`update attestation_leaf_packs set seed = decode(repeat('00', 32), 'hex')`,
    ),
  },
  {
    description: 'leaves in another order',
    rule: 'A2',
    apply: unguarded(
      (sql) => sql`
      update attestation_leaf_packs set ledger_ids = ledger_ids[2:2] || ledger_ids[1:1] || ledger_ids[3:],
             call_ids = call_ids[2:2] || call_ids[1:1] || call_ids[3:],
             amounts = amounts[2:2] || amounts[1:1] || amounts[3:],
             kinds = kinds[2:2] || kinds[1:1] || kinds[3:]`,
    ),
  },
  {
    description: 'missing leaves',
    rule: 'A2',
    apply: unguarded((sql) => sql`delete from attestation_leaf_packs where first_index = 0`),
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
