import type { PendingQuery, Row } from 'postgres'
import {
  EMPTY_TREE_ROOT,
  foldCompleteSubtree,
  hashNodeFromSubtrees,
  splitIntoSubtrees,
  STORED_TREE_LEVEL_STEP,
  type CompleteSubtree,
  type LeafRange,
} from '../../core/attestations/merkle-tree.ts'
import { toFeeLeafCommitmentOpening } from '../../core/attestations/fee-attestations.ts'
import { asMicros, type Micros } from '../../core/money.ts'
import { toUnquotedColumnArrayLiteral } from '../postgres/postgres-array-literal.ts'
import { MAX_PACK_LEAVES } from './attestation-tree-writer.ts'
import { answerHashOf } from '../calls/call-answer-hashes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Reads the hash tree of fees: rows, heads, hashes of nodes and sums. */

/** A leaf as everyone may see it. */
export interface PublicAttestationLeaf {
  readonly index: number
  readonly text: string
  readonly hash: Buffer
  readonly minute: Date
  readonly kind: string
  readonly amount: Micros
}

export interface SignedTreeHead {
  readonly size: number
  readonly root: Buffer
  readonly at: Date
  readonly note: string
}

/** The leaves of a kind. */
export interface FeeKindTotal {
  readonly kind: string
  readonly leaves: number
  readonly amount: Micros
}

/** A published head that is not one of this tree. */
export interface UnmatchedPublishedTreeHead {
  readonly size: number
  readonly root: Buffer
  readonly note: string
  readonly foundSize: number
  readonly foundAt: Date
}

export interface AttestationSummary {
  readonly totals: readonly FeeKindTotal[]
  readonly rewinds: readonly UnmatchedPublishedTreeHead[]
  /** The latest head; null for a tree without leaves. */
  readonly head: SignedTreeHead | null
}

export interface FeesOfCall {
  readonly openings: readonly { readonly index: number; readonly opening: string }[]
  readonly isPending: boolean
}

/** What the call log knows of a call for its receipt. */
export interface CallRequestAndAnswerHashes {
  readonly requestHash: string | null
  readonly answerHash: Buffer | null
}

export function createAttestationTreeReader(sql: Sql) {
  /** The hashes of nodes, in their order. Their leaves must exist. */
  async function hashes(nodes: readonly LeafRange[]): Promise<Buffer[]> {
    const parts = nodes.map(splitIntoSubtrees)
    const known = await readSubtrees(sql, parts.flat())
    return parts.map((subtrees) => hashNodeFromSubtrees(subtrees.map((subtree) => known(subtree))))
  }

  return {
    hashes,

    /** The root of the tree when it had this size. */
    async rootAt(size: number): Promise<Buffer> {
      if (size === 0) return EMPTY_TREE_ROOT
      const [root] = await hashes([{ start: 0, end: size }])
      return root ?? EMPTY_TREE_ROOT
    },

    /** Leaves, the last appended first; `before` is an index. */
    async leaves(limit: number, before: string | null): Promise<PublicAttestationLeaf[]> {
      const rows = await sql<LeafRow[]>`
        select ${leafColumns(sql)}
          from (select least(${before ?? MAX_INDEX}::bigint, tree_size) as next from attestation_cursor) c,
               attestation_leaves
         where ${isLeafBetween(sql, sql`next - ${limit}`, sql`next`)} order by leaf_index desc`
      return rows.map(toPublicLeaf)
    },

    async leaf(index: number): Promise<PublicAttestationLeaf | null> {
      const [row] = await sql<LeafRow[]>`
        select ${leafColumns(sql)} from attestation_leaves
         where ${isLeafBetween(sql, sql`${index}::bigint`, sql`${index}::bigint + 1`)}`
      return row === undefined ? null : toPublicLeaf(row)
    },

    /** Heads, the latest first; `before` is a size. */
    async heads(limit: number, before: string | null): Promise<SignedTreeHead[]> {
      const rows = await sql<HeadRow[]>`
        select tree_size, root, signed_at, note from attestation_heads
         where tree_size < ${before ?? MAX_INDEX}::bigint order by tree_size desc limit ${limit}`
      return rows.map(toSignedTreeHead)
    },

    /** The name of the tree; null before its first head. */
    async origin(): Promise<string | null> {
      const [row] = await sql<{ origin: string | null }[]>`select origin from attestation_cursor`
      return row?.origin ?? null
    },

    /** The sums of the leaves, in the state of the latest head. */
    summary: (): Promise<AttestationSummary> =>
      sql.begin('isolation level repeatable read read only', async (tx) => {
        const totals = await tx<{ kind: string; leaves: bigint; amount: bigint }[]>`
          select kind, leaves, amount_micros as amount from attestation_totals order by kind`
        const rewinds = await tx<RewindRow[]>`
          select tree_size, root, note, found_size, found_at from attestation_rewinds
           order by found_at desc, tree_size desc limit ${MAX_REWINDS}`
        const heads = await tx<HeadRow[]>`
          select tree_size, root, signed_at, note from attestation_heads order by tree_size desc limit 1`
        return {
          totals: totals.map(({ kind, leaves, amount }) => ({
            kind,
            leaves: Number(leaves),
            amount: asMicros(amount),
          })),
          rewinds: rewinds.map(toTreeRewind),
          head: heads.map(toSignedTreeHead)[0] ?? null,
        }
      }),

    /**
     * The fees of a call that was admitted at `at`: the leaves with what they hide, and whether one is not appended
     * yet. A fee may be booked long after the call.
     */
    async feesOfCall(callId: string, at: Date): Promise<FeesOfCall> {
      const rows = await sql<{ index: bigint | null; salt: string; id: string }[]>`
        select l.leaf_index as index, l.salt, f.id from fee_movements f
          left join attestation_leaves l on l.minute = date_trunc('minute', f.at)
                and l.lowest_ledger_id <= f.id and l.highest_ledger_id >= f.id and l.ledger_id = f.id
         where f.call_id = ${callId} and f.at > ${at}::timestamptz - ${MAX_CLOCK_DIFFERENCE}::interval
         order by l.leaf_index`
      return {
        openings: rows.flatMap(({ index, salt, id }) =>
          index === null
            ? []
            : [{ index: Number(index), opening: toFeeLeafCommitmentOpening(salt, id, callId) }],
        ),
        isPending: rows.some(({ index }) => index === null),
      }
    },

    async hashesOfCall(owner: string, callId: string): Promise<CallRequestAndAnswerHashes> {
      const [row] = await sql<CallHashRow[]>`
        select request_hash, answer_hash, response from calls
         where owner = ${owner} and call_id = ${callId}`
      return {
        requestHash: row?.request_hash ?? null,
        answerHash: row?.answer_hash ?? answerHashOf(row?.response ?? null),
      }
    },
  }
}
export type AttestationTreeReader = ReturnType<typeof createAttestationTreeReader>

const MAX_INDEX = '9223372036854775807'
const MAX_REWINDS = 20
/** Between the clocks of two nodes, and more. It keeps a search from old months. */
const MAX_CLOCK_DIFFERENCE = '1 hour'

/**
 * Reads complete subtrees: those at a stored level as they are, others folded from the stored level below them.
 * One query reads the leaves, one all other levels.
 */
async function readSubtrees(
  sql: Sql,
  wanted: readonly CompleteSubtree[],
): Promise<(subtree: CompleteSubtree) => Buffer> {
  const places = wanted.map(toStoredRange)
  const below = places.filter(({ level }) => level === 0)
  const above = places.filter(({ level }) => level > 0)
  const stored = new Map<string, Buffer>()
  const keep = (rows: readonly StoredHashRow[]) => {
    for (const { level, place, hash } of rows) stored.set(`${level} ${place}`, hash)
  }
  if (below.length > 0)
    keep(
      await sql<StoredHashRow[]>`
      select 0 as level, leaf_index as place, hash
        from unnest(${toUnquotedColumnArrayLiteral(below, ({ first }) => first)}::bigint[],
                    ${toUnquotedColumnArrayLiteral(below, ({ count }) => count)}::bigint[]) r(first, count)
        join attestation_leaves on ${isLeafBetween(sql, sql`first`, sql`first + count`)}`,
    )
  if (above.length > 0)
    keep(
      await sql<StoredHashRow[]>`
      select s.level, subtree_index as place, hash
        from unnest(${toUnquotedColumnArrayLiteral(above, ({ level }) => level)}::int[],
                    ${toUnquotedColumnArrayLiteral(above, ({ first }) => first)}::bigint[],
                    ${toUnquotedColumnArrayLiteral(above, ({ count }) => count)}::bigint[]) r(level, first, count)
        join attestation_subtrees s on s.level = r.level and subtree_index >= first and subtree_index < first + count`,
    )
  return (subtree) => {
    const { level, first, count } = toStoredRange(subtree)
    return foldCompleteSubtree(
      Array.from({ length: count }, (_, at) => {
        const hash = stored.get(`${level} ${first + at}`)
        if (hash === undefined)
          throw new Error(`the tree lacks node ${first + at} of level ${level}`)
        return hash
      }),
    )
  }
}

interface StoredHashRow {
  level: number
  place: bigint
  hash: Buffer
}

/** The stored nodes that a subtree consists of. */
function toStoredRange({ level, index }: CompleteSubtree) {
  const above = level % STORED_TREE_LEVEL_STEP
  const count = 2 ** above
  return { level: level - above, first: index * count, count }
}

interface CallHashRow {
  request_hash: string | null
  answer_hash: Buffer | null
  response: string | null
}

interface LeafRow {
  leaf_index: bigint
  text: string
  hash: Buffer
  minute: Date
  kind: string
  amount_micros: bigint
}

interface HeadRow {
  tree_size: bigint
  root: Buffer
  signed_at: Date
  note: string
}

interface RewindRow {
  tree_size: bigint
  root: Buffer
  note: string
  found_size: bigint
  found_at: Date
}

const toSignedTreeHead = (row: HeadRow): SignedTreeHead => ({
  size: Number(row.tree_size),
  root: row.root,
  at: row.signed_at,
  note: row.note,
})

const toTreeRewind = (row: RewindRow): UnmatchedPublishedTreeHead => ({
  size: Number(row.tree_size),
  root: row.root,
  note: row.note,
  foundSize: Number(row.found_size),
  foundAt: row.found_at,
})

const leafColumns = (sql: Sql) => sql`leaf_index, text, hash, minute, kind, amount_micros`

/** `start` is in the range, `end` is not. The bounds of `first_index` are those that an index serves. */
const isLeafBetween = (sql: Sql, start: PendingQuery<Row[]>, end: PendingQuery<Row[]>) => sql`
  leaf_index >= ${start} and leaf_index < ${end} and first_index > ${start} - ${MAX_PACK_LEAVES}::int and first_index < ${end}`

const toPublicLeaf = (row: LeafRow): PublicAttestationLeaf => ({
  index: Number(row.leaf_index),
  text: row.text,
  hash: row.hash,
  minute: row.minute,
  kind: row.kind,
  amount: asMicros(row.amount_micros),
})
