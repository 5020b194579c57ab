import {
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
  readonly salt: Buffer
}

export const TEST_STATION_SEALING_KEYS = deriveEncryptionKeys(
  [parseMasterKey(Buffer.alloc(32, 7).toString('base64'))],
  'station',
)

const TABLES = ['attestation_leaves', 'attestation_subtrees', 'attestation_heads'] as const

/** Lets the tables be changed, as their owner can. */
export async function dropAppendOnlyGuards(sql: Sql): Promise<void> {
  for (const table of ['attestation_leaves', 'attestation_heads', 'ledger'])
    await sql.unsafe(`alter table ${table} disable trigger user`)
}

/** Rewrites the whole tree over other leaves, consistently, and signs its head anew. Salts stay. */
export async function rewriteAttestationTree(
  sql: Sql,
  change: (leaves: StoredAttestationLeaf[]) => readonly StoredAttestationLeaf[],
): Promise<void> {
  const leaves = change(
    await sql<StoredAttestationLeaf[]>`
      select ledger_id, call_id, amount_micros, kind, minute, salt from attestation_leaves order by leaf_index`,
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
        insert into attestation_leaves (leaf_index, ledger_id, call_id, amount_micros, kind, minute, salt, hash)
        values (${index}, ${leaf.ledger_id}, ${leaf.call_id}, ${leaf.amount_micros}, ${leaf.kind}, ${leaf.minute},
                ${leaf.salt}, ${hashes[index] ?? leaf.salt})`
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
    toFeeLeafCommitmentOpening(leaf.salt, leaf.ledger_id, leaf.call_id),
  )
  return hashLeaf(
    toFeeLeafText({ minute: toFeeLeafMinute(minute), kind, amountMicros, commitment }),
  )
}
