import { Type, type Static } from 'typebox'
import { sumMicros, toUsdc } from '../../core/money.ts'
import type {
  AttestationSummary,
  PublicAttestationLeaf,
  SignedTreeHead,
} from '../../persistence/attestations/attestation-tree-reader.ts'
import { DateTimeSchema, Nullable, toIsoTime, ResponseUsdcAmountSchema } from './shared-schemas.ts'

/** Schemas of attestations, and attestations in their form. */

const HashSchema = (description: string) => Type.String({ description: `${description}, base64.` })

export const FeeLeafSchema = Type.Object(
  {
    index: Type.Integer({ description: 'Its place in the tree, from 0.' }),
    leaf: Type.String({
      description:
        'What is hashed: `gas-fee-v1`, the minute, the kind, millionths of a USDC, and a salted commitment.',
    }),
    leaf_hash: HashSchema('SHA-256 of a zero byte and `leaf`'),
    at: Type.String({ format: 'date-time', description: 'The minute of the movement.' }),
    kind: Type.String({
      description:
        '`fee` of a call, `tip_fee`, `sale_fee`, `royalty_feed` for the Hive, or `loss`.',
    }),
    amount_usdc: Type.Number({ description: 'Below zero for what leaves the fees.' }),
  },
  { $id: 'FeeLeaf' },
)

export const TreeHeadSchema = Type.Object(
  {
    tree_size: Type.Integer(),
    root_hash: HashSchema('The root of the tree (RFC 9162, 2.1)'),
    signed_at: Nullable(DateTimeSchema),
    note: Nullable(
      Type.String({
        description:
          'The signed head: a checkpoint (c2sp.org/tlog-checkpoint). Null without a leaf.',
      }),
    ),
    keys: Type.Array(Type.String(), {
      description: 'The keys that sign, in the form `name+id+key` (c2sp.org/signed-note).',
    }),
  },
  { $id: 'TreeHead' },
)

export const ConsistencyProofSchema = Type.Object({
  from_size: Type.Integer(),
  to_size: Type.Integer(),
  consistency: Type.Array(HashSchema('A node of the proof (RFC 9162, 2.1.4)')),
})

export const InclusionProofSchema = Type.Object({
  index: Type.Integer(),
  tree_size: Type.Integer(),
  leaf: Type.String({ description: 'What is hashed.' }),
  inclusion: Type.Array(HashSchema('A node of the proof (RFC 9162, 2.1.3)')),
})

const RewindSchema = Type.Object({
  tree_size: Type.Integer({ description: 'The size of the published head.' }),
  note: Type.String({ description: 'The published head.' }),
  found_size: Type.Integer({ description: 'The size of the restored tree.' }),
  found_at: DateTimeSchema,
})

export const AttestationSummarySchema = Type.Object({
  fees_usdc: Type.Number({ description: 'What came into the fees: of calls, tips and sales.' }),
  treasury_usdc: Type.Number({ description: 'The sum of all leaves: what the fees hold.' }),
  kinds: Type.Array(
    Type.Object({
      kind: Type.String(),
      leaves: Type.Integer(),
      amount_usdc: ResponseUsdcAmountSchema,
    }),
  ),
  tree_size: Type.Integer({ description: 'How many leaves the sums are over.' }),
  root_hash: HashSchema('The root of that tree'),
  signed_at: Nullable(DateTimeSchema),
  rewinds: Type.Array(RewindSchema, {
    description:
      'Published heads that are ahead of this ledger, because an older backup was restored. Normally none.',
  }),
})

export const CallAttestationSchema = Type.Object({
  note: Type.String({
    description:
      'The signed receipt: call, tool, rail, cost, time, hashes of request and answer, and a line for each fee with its place in the tree and its opening.',
  }),
  cost_usdc: ResponseUsdcAmountSchema,
  request_hash: Nullable(
    Type.String({
      description:
        'HMAC-SHA256 of the request under `request_key`, both hex, for calls with an Idempotency-Key. Null for a key bound to a Backpack: the key is that of the whole agent.',
    }),
  ),
  request_key: Nullable(Type.String({ description: 'In hex.' })),
  answer_hash: Nullable(
    Type.String({
      description:
        'SHA-256 of the body of the answer as RFC 8785 writes it, if it was stored; hex.',
    }),
  ),
  pending: Type.Boolean({
    description: 'Fees are not in the tree yet: ask again in some seconds.',
  }),
  fees: Type.Array(
    Type.Object({
      index: Type.Integer(),
      opening: Type.String({
        description: 'Salt, ledger row and call: its SHA-256 in hex is the last word of the leaf.',
      }),
      leaf: Type.String(),
      inclusion: Type.Array(HashSchema('A node of the proof')),
    }),
  ),
  head: Nullable(
    Type.String({ description: 'The signed head that the proofs lead to; null without fees.' }),
  ),
})

export const toFeeLeafView = (leaf: PublicAttestationLeaf): Static<typeof FeeLeafSchema> => ({
  index: leaf.index,
  leaf: leaf.text,
  leaf_hash: leaf.hash.toString('base64'),
  at: toIsoTime(leaf.minute),
  kind: leaf.kind,
  amount_usdc: toUsdc(leaf.amount),
})

export const toTreeHeadView = (
  { size, root, at, note }: SignedTreeHead,
  keys: string[],
): Static<typeof TreeHeadSchema> => ({
  tree_size: size,
  root_hash: root.toString('base64'),
  signed_at: toIsoTime(at),
  note,
  keys,
})

/** Kinds of movements into the fees. */
const INCOME_KIND = /(^|_)fee$/

export const toAttestationSummaryView = (
  { totals, rewinds, head }: AttestationSummary,
  emptyRoot: Buffer,
): Static<typeof AttestationSummarySchema> => {
  const sumOf = (kinds: AttestationSummary['totals']) =>
    toUsdc(sumMicros(kinds.map(({ amount }) => amount)))
  return {
    fees_usdc: sumOf(totals.filter(({ kind }) => INCOME_KIND.test(kind))),
    treasury_usdc: sumOf(totals),
    kinds: totals.map(({ kind, leaves, amount }) => ({
      kind,
      leaves,
      amount_usdc: toUsdc(amount),
    })),
    tree_size: head?.size ?? 0,
    root_hash: (head?.root ?? emptyRoot).toString('base64'),
    signed_at: head === null ? null : toIsoTime(head.at),
    rewinds: rewinds.map(({ size, note, foundSize, foundAt }) => ({
      tree_size: size,
      note,
      found_size: foundSize,
      found_at: toIsoTime(foundAt),
    })),
  }
}
