import { randomBytes } from 'node:crypto'
import {
  deriveFeeLeafSalt,
  feeLeafCommitmentOf,
  formatTreeHead,
  toFeeLeafMinute,
  toFeeLeafCommitmentOpening,
  toFeeLeafText,
} from '../../core/attestations/fee-attestations.ts'
import {
  appendLeavesToTreeRightEdge,
  rootOfTreeRightEdge,
  hashLeaf,
  parseTreeRightEdge,
  toTreeRightEdgeBytes,
  type HashedSubtree,
} from '../../core/attestations/merkle-tree.ts'
import { signNote } from '../../core/attestations/signed-note.ts'
import { MINUTE } from '../../core/clock.ts'
import { createEventLoopYieldQueue } from '../../core/concurrency/event-loop-yield-queue.ts'
import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import { toUnquotedColumnArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { takeQueuedFees, type FeeRow } from './attestation-fee-queue.ts'
import { readActiveAttestationSigningKeys } from './attestation-key-store.ts'

/** Appends the queued fees of the ledger to the hash tree, and signs its heads. */

/** Leaves of a pack: `attestation_leaf_packs` allows no more. */
export const MAX_PACK_LEAVES = 32
const SEED_BYTES = 32
/** Leaves that one statement inserts: the text of many more would hold up every call. */
const STATEMENT_LEAVES = 1_024

export interface AttestationWriterDeps {
  readonly sql: Sql
  readonly sealing: EncryptionKeys
  /** The name of a new tree and of its signer. An existing tree keeps its own. */
  readonly origin: string
}

/** A signed head that was just stored. */
export interface StoredTreeHead {
  readonly size: number
  readonly note: string
  /** Whether more fees wait than a transaction appends. */
  readonly more: boolean
}

/**
 * Appends the fees that wait, each once, and signs the new head, in one transaction. Null if there are none, or
 * another node appends.
 */
export const appendFeesToAttestationTree = ({ sql, sealing, origin }: AttestationWriterDeps) =>
  sql.begin(async (tx): Promise<StoredTreeHead | null> => {
    const cursor = await lockCursor(tx)
    if (cursor === null) return null
    const { fees, at, oldest, more } = await takeQueuedFees(tx, cursor.oldest)
    if (fees.length === 0) return null
    const name = cursor.origin ?? origin
    const seed = randomBytes(SEED_BYTES).toString('hex')
    const leaves = await toLeaves(fees, seed)
    const subtrees: HashedSubtree[] = []
    let edge = parseTreeRightEdge(Number(cursor.tree_size), cursor.peaks)
    for (const part of inParts(leaves, TURN_FEES)) {
      const hashes = part.map(({ hash }) => hash)
      edge = appendLeavesToTreeRightEdge(edge, hashes, (subtree) => subtrees.push(subtree))
      await nextTurn()
    }
    let next = Number(cursor.tree_size)
    for (const part of inParts(leaves, STATEMENT_LEAVES)) {
      await insertLeaves(tx, next, seed, part)
      next += part.length
    }
    await addToTotals(tx, leaves)
    await insertSubtrees(tx, subtrees)
    const root = rootOfTreeRightEdge(edge)
    const text = formatTreeHead({ origin: name, size: edge.size, root, at: at.toISOString() })
    const note = signNote(text, await readActiveAttestationSigningKeys(tx, sealing, name))
    await tx`insert into attestation_heads (tree_size, root, signed_at, note)
      values (${edge.size}, ${root}, ${at}, ${note})`
    await tx`
      update attestation_cursor set tree_size = ${edge.size}, peaks = ${toTreeRightEdgeBytes(edge)}, origin = ${name},
             oldest = ${more ? cursor.oldest : oldest}::text::xid8, cluster = ${cursor.here}`
    return { size: edge.size, note, more }
  })

interface CursorRow {
  tree_size: bigint
  peaks: Buffer
  origin: string | null
  /** The queue has no row of an earlier transaction. */
  oldest: string
  here: string
}

/**
 * Locks the position of all nodes; null if another one has the lock. In a restored database transaction ids start
 * again, so the whole queue is read.
 */
async function lockCursor(tx: DatabaseTransaction): Promise<CursorRow | null> {
  const [row] = await tx<CursorRow[]>`
    select tree_size, peaks, origin, case when cluster = here then oldest::text else '0' end as oldest, here
      from (select * from attestation_cursor for update skip locked) c,
           (select system_identifier || ' ' || 'ledger'::regclass::oid as here from pg_control_system()) h`
  return row ?? null
}

interface NewLeaf extends FeeRow {
  readonly minute: string
  readonly minuteNumber: number
  /** The first 48 bits of the commitment: numbers are compared in a twentieth of the time of texts. */
  readonly order: number
  readonly hash: Buffer
}

/** Within a minute the order is that of the commitments, which tells nothing. */
async function toLeaves(fees: readonly FeeRow[], seed: string): Promise<NewLeaf[]> {
  const leaves: NewLeaf[] = []
  for (const part of inParts(fees, TURN_FEES)) {
    for (const fee of part) leaves.push(toLeaf(fee, seed))
    await nextTurn()
  }
  return leaves.sort((a, b) => a.minuteNumber - b.minuteNumber || a.order - b.order)
}

/** Fees that are hashed in one turn of the event loop: all fees of a busy second would hold up every call. */
const TURN_FEES = 64
const nextTurn = createEventLoopYieldQueue()

function* inParts<T>(all: readonly T[], size: number): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += size) yield all.slice(from, from + size)
}

function toLeaf(fee: FeeRow, seed: string): NewLeaf {
  const minute = toFeeLeafMinute(fee.at)
  const salt = deriveFeeLeafSalt(seed, fee.id)
  const commitment = feeLeafCommitmentOf(toFeeLeafCommitmentOpening(salt, fee.id, fee.call_id))
  const { kind, amount_micros: amountMicros } = fee
  const hash = hashLeaf(toFeeLeafText({ minute, kind, amountMicros, commitment }))
  const minuteNumber = Math.floor(fee.at.getTime() / MINUTE)
  return { ...fee, minute, minuteNumber, order: parseInt(commitment.slice(0, 12), 16), hash }
}

/** A pack has leaves of one minute, so its number starts anew with the minute. */
async function insertLeaves(
  tx: DatabaseTransaction,
  start: number,
  seed: string,
  leaves: readonly NewLeaf[],
): Promise<void> {
  await tx`
    insert into attestation_leaf_packs
      (first_index, minute, lowest_ledger_id, highest_ledger_id, seed, ledger_ids, call_ids, amounts, kinds)
    select ${start}::bigint + min(place) - 1, minute, (array_agg(ledger_id order by ledger_id))[1],
           (array_agg(ledger_id order by ledger_id desc))[1], decode(${seed}, 'hex'),
           array_agg(ledger_id order by place), array_agg(call_id order by place), array_agg(amount order by place),
           array_agg(kind order by place)
      from (select *, (row_number() over (partition by minute order by place) - 1) / ${MAX_PACK_LEAVES}::bigint as pack
              from unnest(${toUnquotedColumnArrayLiteral(leaves, ({ id }) => id)}::uuid[],
                          ${toUnquotedColumnArrayLiteral(leaves, (leaf) => leaf.call_id)}::uuid[],
                          ${toUnquotedColumnArrayLiteral(leaves, (leaf) => leaf.amount_micros)}::bigint[],
                          ${toUnquotedColumnArrayLiteral(leaves, ({ kind }) => kind)}::text[],
                          ${toUnquotedColumnArrayLiteral(leaves, ({ minute }) => minute)}::timestamptz[])
                   with ordinality x(ledger_id, call_id, amount, kind, minute, place)) y
     group by minute, pack order by 1`
}

async function addToTotals(tx: DatabaseTransaction, leaves: readonly NewLeaf[]): Promise<void> {
  const sums = new Map<string, { leaves: number; amount: bigint }>()
  for (const { kind, amount_micros: amount } of leaves) {
    const sum = sums.get(kind) ?? { leaves: 0, amount: 0n }
    sums.set(kind, { leaves: sum.leaves + 1, amount: sum.amount + amount })
  }
  for (const [kind, sum] of sums)
    await tx`
      insert into attestation_totals as t values (${kind}, ${sum.leaves}, ${sum.amount})
      on conflict (kind) do update set leaves = t.leaves + excluded.leaves,
        amount_micros = t.amount_micros + excluded.amount_micros`
}

async function insertSubtrees(
  tx: DatabaseTransaction,
  subtrees: readonly HashedSubtree[],
): Promise<void> {
  if (subtrees.length === 0) return
  await tx`
    insert into attestation_subtrees (level, subtree_index, hash)
    select level, place, decode(hash, 'hex')
      from unnest(${toUnquotedColumnArrayLiteral(subtrees, ({ level }) => level)}::int[],
                  ${toUnquotedColumnArrayLiteral(subtrees, ({ index }) => index)}::bigint[],
                  ${toUnquotedColumnArrayLiteral(subtrees, ({ hash }) => hash.toString('hex'))}::text[]) x(level, place, hash)`
}

/** Records a published head that is not one of this tree. True if it was not known. */
export async function recordUnmatchedPublishedTreeHead(
  sql: Sql,
  head: { readonly size: number; readonly root: Uint8Array; readonly note: string },
): Promise<boolean> {
  const rows = await sql`
    insert into attestation_rewinds (tree_size, root, note, found_size)
      select ${head.size}, ${Buffer.from(head.root)}, ${head.note}, tree_size from attestation_cursor
    on conflict do nothing returning 1`
  return rows.length > 0
}

/** Accepts what was found of a restored backup, so that `gas verify` passes. Returns how many heads. */
export async function acceptUnmatchedPublishedTreeHeads(sql: Sql): Promise<number> {
  const rows = await sql`
    update attestation_rewinds set accepted_at = now() where accepted_at is null returning 1`
  return rows.length
}
