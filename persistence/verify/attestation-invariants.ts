import { parseTreeHead } from '../../core/attestations/fee-attestations.ts'
import {
  appendLeavesToTreeRightEdge,
  EMPTY_TREE_RIGHT_EDGE,
  rootOfTreeRightEdge,
  toTreeRightEdgeBytes,
  type HashedSubtree,
  type TreeRightEdge,
} from '../../core/attestations/merkle-tree.ts'
import { readVerifiedNoteText } from '../../core/attestations/signed-note.ts'
import { MAX_PACK_LEAVES } from '../attestations/attestation-tree-writer.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import type { DatabaseInvariant } from './database-invariant.ts'

/** Attestations: the leaves are the fees of the ledger, and the tree is that of its signed heads. */

export const ATTESTATION_INVARIANTS: readonly DatabaseInvariant[] = [
  {
    id: 'A1',
    description:
      'each fee of the ledger is one leaf of the attestations or waits, and each leaf is a fee',
    countSql: 'select count(*) as n from attestation_leaves',
    violationsSql: `with fees as (select *, date_trunc('minute', at) as minute from fee_movements),
      listed as (
        select leaf_index, ledger_id, call_id, amount_micros, kind, minute from attestation_leaves
        union all
        select null, f.id, f.call_id, f.amount, f.kind, date_trunc('minute', f.at)
          from unattested_fees, unnest(ledger_ids, call_ids, amounts, kinds, times) f(id, call_id, amount, kind, at))
      select l.leaf_index, coalesce(l.ledger_id, f.id) as ledger_id, f.amount_micros as fee, l.amount_micros as leaf,
             case when f.id is null then 'no fee' when l.ledger_id is null then 'no leaf' else 'differs' end as why
        from fees f full join listed l on l.ledger_id = f.id
       where f.id is null or l.ledger_id is null
          or (l.amount_micros, l.kind, l.minute) <> (f.amount_micros, f.kind, f.minute)
          or l.call_id is distinct from f.call_id
      union all
      select min(leaf_index), ledger_id, null, null, 'twice' from listed group by ledger_id having count(*) > 1`,
  },
  {
    id: 'A3',
    description: 'each head that was published is one of this tree: no older backup was restored',
    countSql: 'select count(*) as n from attestation_heads',
    violationsSql: `select tree_size as published, found_size as found, found_at from attestation_rewinds
       where accepted_at is null`,
  },
]

export const ATTESTATION_TREE_INVARIANT = {
  id: 'A2',
  description:
    'the tree over the leaves has the roots of its signed heads, the stored subtrees and the published sums',
}

export interface AttestationTreeFindings {
  /** Leaves hashed. */
  readonly checked: number
  readonly broken: readonly Record<string, unknown>[]
}

const PAGE_ROWS = 5_000
/** Signatures that are checked, from the latest head on: each takes 0.1 ms. */
const CHECKED_SIGNATURES = 200

type Report = (violation: Record<string, unknown>) => void

/** Hashes the tree anew, page by page, in the transaction of `sql`. */
export async function findAttestationTreeViolations(
  sql: Sql,
  maxSamples: number,
): Promise<AttestationTreeFindings> {
  const broken: Record<string, unknown>[] = []
  const report: Report = (violation) => {
    if (broken.length < maxSamples) broken.push(violation)
  }
  let edge = EMPTY_TREE_RIGHT_EDGE
  for (;;) {
    const leaves = await sql<{ leaf_index: bigint; hash: Buffer }[]>`
      select leaf_index, hash from attestation_leaves
       where leaf_index >= ${edge.size} and first_index > ${edge.size} - ${MAX_PACK_LEAVES}::int
         and first_index < ${edge.size + PAGE_ROWS} and leaf_index < ${edge.size + PAGE_ROWS}
       order by leaf_index`
    if (leaves.length === 0) break
    const subtrees: HashedSubtree[] = []
    const heads = await readHeads(sql, edge.size, edge.size + leaves.length)
    for (const { leaf_index: index, hash } of leaves) {
      if (Number(index) !== edge.size) {
        report({ leaf: edge.size, why: 'missing' })
        return { checked: edge.size, broken }
      }
      edge = appendLeavesToTreeRightEdge(edge, [hash], (subtree) => subtrees.push(subtree))
      const head = heads.get(edge.size)
      if (head !== undefined && !rootOfTreeRightEdge(edge).equals(head))
        report({ head: edge.size, why: 'another root' })
    }
    await compareSubtrees(sql, subtrees, report)
  }
  await compareEnd(sql, edge, report)
  await compareTotals(sql, report)
  await checkNotes(sql, report)
  return { checked: edge.size, broken }
}

async function readHeads(sql: Sql, after: number, last: number): Promise<Map<number, Buffer>> {
  const rows = await sql<{ tree_size: bigint; root: Buffer }[]>`
    select tree_size, root from attestation_heads where tree_size > ${after} and tree_size <= ${last}`
  return new Map(rows.map(({ tree_size: size, root }) => [Number(size), root]))
}

async function compareSubtrees(
  sql: Sql,
  subtrees: readonly HashedSubtree[],
  report: Report,
): Promise<void> {
  for (const { level, index, hash } of subtrees) {
    const [row] = await sql<{ hash: Buffer }[]>`
      select hash from attestation_subtrees where level = ${level} and subtree_index = ${index}`
    if (row === undefined || !row.hash.equals(hash))
      report({ level, subtree: index, why: 'another hash' })
  }
}

/** Nothing is ahead of the last leaf, and the next one is appended to the right tree. */
async function compareEnd(sql: Sql, edge: TreeRightEdge, report: Report): Promise<void> {
  const [end] = await sql<{ size: bigint; peaks: Buffer; head: bigint }[]>`
    select tree_size as size, peaks,
           (select coalesce(max(tree_size), 0)::bigint from attestation_heads) as head
      from attestation_cursor`
  if (
    end === undefined ||
    Number(end.size) !== edge.size ||
    !end.peaks.equals(toTreeRightEdgeBytes(edge))
  )
    report({ leaves: edge.size, cursor: end?.size, why: 'another tree goes on' })
  if (end !== undefined && Number(end.head) !== edge.size)
    report({ leaves: edge.size, head: end.head, why: 'the last head is not that of all leaves' })
}

async function compareTotals(sql: Sql, report: Report): Promise<void> {
  const rows = await sql`
    select kind, t.leaves as published, l.leaves, t.amount_micros as amount, l.amount
      from attestation_totals t full join (
        select kind, count(*) as leaves, sum(amount_micros)::bigint as amount from attestation_leaves group by kind) l
      using (kind)
     where t.leaves is distinct from l.leaves or t.amount_micros is distinct from l.amount`
  for (const row of rows) report({ ...row, why: 'another sum' })
}

async function checkNotes(sql: Sql, report: Report): Promise<void> {
  const keys = await sql<{ public_key: Buffer; origin: string }[]>`
    select public_key, coalesce(origin, '') as origin from attestation_keys, attestation_cursor`
  const heads = await sql<{ tree_size: bigint; root: Buffer; note: string }[]>`
    select tree_size, root, note from attestation_heads order by tree_size desc limit ${CHECKED_SIGNATURES}`
  for (const { tree_size: size, root, note } of heads) {
    const opened = keys
      .map(({ public_key: publicKey, origin: name }) =>
        readVerifiedNoteText(note, { name, publicKey }),
      )
      .find((text) => text !== null)
    const head = opened === undefined ? null : parseTreeHead(opened)
    if (head === null) report({ head: size, why: 'no signature of this station' })
    else if (head.size !== Number(size) || !root.equals(head.root))
      report({ head: size, signed: head.size, why: 'its note says something else' })
  }
}
