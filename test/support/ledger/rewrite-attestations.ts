import {
  deriveFeeLeafSalt,
  feeLeafCommitmentOf,
  formatTreeHead,
  toFeeLeafMinute,
  toFeeLeafCommitmentOpening,
  toFeeLeafText,
} from '../../../core/attestations/fee-attestations.ts'
import {
  appendLeavesToTreeRightEdge,
  rootOfTreeRightEdge,
  EMPTY_TREE_RIGHT_EDGE,
  hashLeaf,
  toTreeRightEdgeBytes,
} from '../../../core/attestations/merkle-tree.ts'
import { signNote } from '../../../core/attestations/signed-note.ts'
import {
  deriveEncryptionKeys,
  parseMasterKey,
} from '../../../core/key-derivation-and-encryption.ts'
import { readActiveAttestationSigningKeys } from '../../../persistence/attestations/attestation-key-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'

/** What a dishonest operator can do: the database, the keys and this code are in its hands. */

export interface StoredAttestationLeaf {
  readonly ledger_id: string
  readonly call_id: string | null
  readonly amount_micros: bigint
  readonly kind: string
  readonly minute: Date
  readonly seed: Buffer
}

export const TEST_STATION_SEALING_KEYS = deriveEncryptionKeys(
  [parseMasterKey(Buffer.alloc(32, 7).toString('base64'))],
  'station',
)

const TABLES = ['attestation_leaf_packs', 'attestation_subtrees', 'attestation_heads'] as const

/** Lets the tables be changed, as their owner can. Fees are still queued. */
export async function dropAppendOnlyGuards(sql: Sql): Promise<void> {
  for (const table of ['attestation_leaf_packs', 'attestation_heads', 'ledger'])
    await sql.unsafe(`alter table ${table} disable trigger user`)
  await sql`alter table ledger enable trigger ledger_fees_queued`
}

/** Adds a fee that nobody queues for the attestations. */
export const insertUnqueuedFee = (sql: Sql, id: string, account: string) =>
  sql.begin(async (tx) => {
    await tx`alter table ledger disable trigger ledger_fees_queued`
    await tx`
      insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
      values (${id}, 'x', ${account}, 'treasury:fees', 5, 'tip_fee', now() - interval '1 hour')`
    await tx`alter table ledger enable trigger ledger_fees_queued`
  })

/** Rewrites the whole tree over other leaves, consistently, and signs its head anew. Seeds of salts stay. */
export async function rewriteAttestationTree(
  sql: Sql,
  change: (leaves: StoredAttestationLeaf[]) => readonly StoredAttestationLeaf[],
): Promise<void> {
  const leaves = change(
    await sql<StoredAttestationLeaf[]>`
      select ledger_id, call_id, amount_micros, kind, minute, seed from attestation_leaves order by leaf_index`,
  )
  const [{ origin } = { origin: '' }] = await sql<{ origin: string }[]>`
    select origin from attestation_cursor`
  const hashes = leaves.map(hashOf)
  const edge = appendLeavesToTreeRightEdge(EMPTY_TREE_RIGHT_EDGE, hashes)
  const root = rootOfTreeRightEdge(edge)
  const at = new Date()
  const text = formatTreeHead({ origin, size: edge.size, root, at: at.toISOString() })
  const note = signNote(
    text,
    await readActiveAttestationSigningKeys(sql, TEST_STATION_SEALING_KEYS, origin),
  )
  await sql.begin(async (tx) => {
    for (const table of TABLES) await tx.unsafe(`delete from ${table}`)
    for (const [index, leaf] of leaves.entries())
      await tx`
        insert into attestation_leaf_packs
          (first_index, minute, lowest_ledger_id, highest_ledger_id, seed, ledger_ids, call_ids, amounts, kinds)
        values (${index}, ${leaf.minute}, ${leaf.ledger_id}, ${leaf.ledger_id}, ${leaf.seed},
                array[${leaf.ledger_id}::uuid], array[${leaf.call_id}::uuid], array[${leaf.amount_micros}::bigint],
                array[${leaf.kind}])`
    await tx`insert into attestation_heads values (${edge.size}, ${root}, ${at}, ${note})`
    await tx`delete from attestation_totals`
    await tx`insert into attestation_totals
      select kind, count(*), sum(amount_micros)::bigint from attestation_leaves group by kind`
    await tx`update attestation_cursor set tree_size = ${edge.size}, peaks = ${toTreeRightEdgeBytes(edge)}`
  })
}

function hashOf({
  minute,
  kind,
  amount_micros: amountMicros,
  ...leaf
}: StoredAttestationLeaf): Buffer {
  const commitment = feeLeafCommitmentOf(
    toFeeLeafCommitmentOpening(
      deriveFeeLeafSalt(leaf.seed.toString('hex'), leaf.ledger_id),
      leaf.ledger_id,
      leaf.call_id,
    ),
  )
  return hashLeaf(
    toFeeLeafText({ minute: toFeeLeafMinute(minute), kind, amountMicros, commitment }),
  )
}
