import { randomBytes } from 'node:crypto'
import {
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
import { createEventLoopYieldQueue } from '../../core/concurrency/event-loop-yield-queue.ts'
import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import { toUnquotedColumnArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { readActiveAttestationSigningKeys } from './attestation-key-store.ts'

/** Appends the fees of the ledger to the hash tree, and signs its heads. */

/** Fees that one transaction appends at most. */
const BATCH_LEAVES = 5_000
const SALT_BYTES = 16
/** Most fees commit within this time of their time stamp. The others are found once in `SEARCH_EVERY`. */
const USUAL_COMMIT_DELAY = '10 seconds'
const SEARCH_EVERY = '1 minute'
/** A row commits at most this long after its time stamp. */
export const MAX_FEE_ROW_COMMIT_DELAY = '10 minutes'

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
 * Appends fees whose commits the last append could not see, each once, and signs the new head, in one
 * transaction. Null if there are none, or another node appends.
 */
export const appendFeesToAttestationTree = ({ sql, sealing, origin }: AttestationWriterDeps) =>
  sql.begin(async (tx): Promise<StoredTreeHead | null> => {
    const cursor = await lockCursor(tx)
    if (cursor === null) return null
    const { fees, snapshot, at } = await readNewFees(tx, cursor)
    const more = fees.length === BATCH_LEAVES
    if (fees.length === 0) {
      if (cursor.whole && (!cursor.complete || cursor.tree_size > cursor.searched_size))
        await endSearch(tx, snapshot)
      return null
    }
    const name = cursor.origin ?? origin
    const leaves = await toLeaves(fees)
    const subtrees: HashedSubtree[] = []
    let edge = parseTreeRightEdge(Number(cursor.tree_size), cursor.peaks)
    for (const part of inParts(leaves)) {
      const hashes = part.map(({ hash }) => hash)
      edge = appendLeavesToTreeRightEdge(edge, hashes, (subtree) => subtrees.push(subtree))
      await nextTurn()
    }
    await insertLeaves(tx, Number(cursor.tree_size), leaves)
    await insertSubtrees(tx, subtrees)
    const root = rootOfTreeRightEdge(edge)
    const text = formatTreeHead({ origin: name, size: edge.size, root, at: at.toISOString() })
    const note = signNote(text, await readActiveAttestationSigningKeys(tx, sealing, name))
    await tx`insert into attestation_heads (tree_size, root, signed_at, note)
      values (${edge.size}, ${root}, ${at}, ${note})`
    await tx`
      update attestation_cursor set tree_size = ${edge.size}, peaks = ${toTreeRightEdgeBytes(edge)}, origin = ${name},
             complete = complete and ${!more}, cluster = ${cursor.here}`
    if (cursor.whole && !more) await endSearch(tx, snapshot)
    return { size: edge.size, note, more }
  })

/**
 * The next search begins at the latest fee of this one: all that the snapshot sees have leaves. Without
 * a leaf it begins where this one did.
 */
const endSearch = (tx: DatabaseTransaction, snapshot: string) => tx`
  update attestation_cursor set snapshot = ${snapshot}::text::pg_snapshot, complete = true,
         searched_at = clock_timestamp(), searched_size = tree_size,
         until = greatest(until, least(now(), coalesce((
           select minute from attestation_leaves order by leaf_index desc limit 1), until)))`

interface CursorRow {
  tree_size: bigint
  searched_size: bigint
  /** Whether all fees that the snapshot cannot see are searched, or those of the last seconds. */
  whole: boolean
  peaks: Buffer
  snapshot: string
  since: string
  complete: boolean
  origin: string | null
  here: string
}

/**
 * Locks the position of all nodes; null if another one has the lock. In a restored database transaction ids start
 * again, so the whole ledger is searched for fees without a leaf.
 */
async function lockCursor(tx: DatabaseTransaction): Promise<CursorRow | null> {
  const [row] = await tx<(CursorRow & { cluster: string })[]>`
    select tree_size, searched_size, peaks, snapshot::text, complete, origin, cluster, whole,
           (case when whole then until - ${MAX_FEE_ROW_COMMIT_DELAY}::interval
                 else now() - ${USUAL_COMMIT_DELAY}::interval end)::text as since,
           (select system_identifier || ' ' || 'ledger'::regclass::oid from pg_control_system()) as here
      from (select *, not complete or searched_at < now() - ${SEARCH_EVERY}::interval as whole
              from attestation_cursor for update skip locked) c`
  if (row === undefined) return null
  if (row.cluster === row.here) return row
  await tx`
    update attestation_cursor set snapshot = '3:3:', until = '-infinity', complete = false, cluster = ${row.here}`
  return { ...row, snapshot: '3:3:', since: '-infinity', complete: false, whole: true }
}

interface FeeRow {
  id: string
  call_id: string | null
  kind: string
  amount_micros: bigint
  at: Date
}

/** One statement, so that the fees and the snapshot belong together. */
async function readNewFees(
  tx: DatabaseTransaction,
  { snapshot, since }: CursorRow,
): Promise<{ fees: FeeRow[]; snapshot: string; at: Date }> {
  const rows = await tx<(FeeRow & { seen: string; read_at: Date; id: string | null })[]>`
    select pg_current_snapshot()::text as seen, clock_timestamp() as read_at, f.*
      from (values (1)) one left join lateral (
        select f.id, f.call_id, f.kind, f.amount_micros, f.at from fee_movements f
         where f.at > ${since}::text::timestamptz and not was_visible(f.written, ${snapshot}::text::pg_snapshot)
           and not exists (select from attestation_leaves l where l.ledger_id = f.id)
         order by f.at, f.id limit ${BATCH_LEAVES}) f on true`
  const [first] = rows
  if (first === undefined) throw new Error('no snapshot')
  return {
    fees: rows.filter(({ id }) => id !== null),
    snapshot: first.seen,
    at: first.read_at,
  }
}

interface NewLeaf extends FeeRow {
  readonly minute: string
  readonly salt: Buffer
  readonly commitment: string
  readonly hash: Buffer
}

/** Within a minute the order is that of the commitments, which tells nothing. */
async function toLeaves(fees: readonly FeeRow[]): Promise<NewLeaf[]> {
  const leaves: NewLeaf[] = []
  for (const part of inParts(fees)) {
    const salts = randomBytes(SALT_BYTES * part.length)
    for (const [at, fee] of part.entries())
      leaves.push(toLeaf(fee, salts.subarray(at * SALT_BYTES, (at + 1) * SALT_BYTES)))
    await nextTurn()
  }
  return leaves.sort((a, b) => compare(a.minute, b.minute) || compare(a.commitment, b.commitment))
}

/** Fees that are hashed in one turn of the event loop: all fees of a busy second would hold up every call. */
const TURN_FEES = 64
const nextTurn = createEventLoopYieldQueue()

function* inParts<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += TURN_FEES) yield all.slice(from, from + TURN_FEES)
}

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

function toLeaf(fee: FeeRow, salt: Buffer): NewLeaf {
  const minute = toFeeLeafMinute(fee.at)
  const commitment = feeLeafCommitmentOf(toFeeLeafCommitmentOpening(salt, fee.id, fee.call_id))
  const { kind, amount_micros: amountMicros } = fee
  const hash = hashLeaf(toFeeLeafText({ minute, kind, amountMicros, commitment }))
  return { ...fee, minute, salt, commitment, hash }
}

async function insertLeaves(
  tx: DatabaseTransaction,
  start: number,
  leaves: readonly NewLeaf[],
): Promise<void> {
  await tx`
    insert into attestation_leaves (leaf_index, ledger_id, call_id, amount_micros, kind, minute, salt, hash)
    select ${start}::bigint + place - 1, ledger_id, call_id, amount, kind, minute, decode(salt, 'hex'), decode(hash, 'hex')
      from unnest(${toUnquotedColumnArrayLiteral(leaves, ({ id }) => id)}::uuid[],
                  ${toUnquotedColumnArrayLiteral(leaves, (leaf) => leaf.call_id)}::uuid[],
                  ${toUnquotedColumnArrayLiteral(leaves, (leaf) => leaf.amount_micros)}::bigint[],
                  ${toUnquotedColumnArrayLiteral(leaves, ({ kind }) => kind)}::text[],
                  ${toUnquotedColumnArrayLiteral(leaves, ({ minute }) => minute)}::timestamptz[],
                  ${toUnquotedColumnArrayLiteral(leaves, ({ salt }) => salt.toString('hex'))}::text[],
                  ${toUnquotedColumnArrayLiteral(leaves, ({ hash }) => hash.toString('hex'))}::text[])
           with ordinality x(ledger_id, call_id, amount, kind, minute, salt, hash, place)`
  await tx`
    insert into attestation_totals as t
      select kind, count(*), sum(amount)::bigint
        from unnest(${toUnquotedColumnArrayLiteral(leaves, ({ kind }) => kind)}::text[],
                    ${toUnquotedColumnArrayLiteral(leaves, (leaf) => leaf.amount_micros)}::bigint[]) x(kind, amount)
       group by kind order by kind
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
