import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { buildDidDocument } from '../../../core/attestations/did-document.ts'
import {
  consistencyPath,
  EMPTY_TREE_ROOT,
  inclusionPath,
} from '../../../core/attestations/merkle-tree.ts'
import { MINUTE, SECOND } from '../../../core/clock.ts'
import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { withDatabaseAnswerTimeout } from '../../../persistence/query-timeout.ts'
import {
  AttestationSummarySchema,
  ConsistencyProofSchema,
  FeeLeafSchema,
  InclusionProofSchema,
  toAttestationSummaryView,
  toTreeHeadView,
  toFeeLeafView,
  TreeHeadSchema,
} from '../../schemas/attestation-schemas.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import { errorResponses, Nullable, schemaRef } from '../../schemas/shared-schemas.ts'

/** Routes for attestations: the public ledger of fees as an append-only hash tree, and the keys that sign it. */

const tags = ['statistics']
const config = { auth: 'none' } as const
const MAX_SIZE = Number.MAX_SAFE_INTEGER
const HEAD_MAX_AGE = `public, max-age=${SECOND / 1_000}`
const DID_MAX_AGE = `public, max-age=${(5 * MINUTE) / SECOND}`

const listAttestations = {
  config,
  schema: {
    operationId: 'listAttestations',
    summary: 'Every fee, the last appended first',
    description:
      "Each movement of the station's fees is a leaf of an append-only hash tree (RFC 9162), appended a second after its commit. A row names neither an agent nor a call; the receipt of a call opens its row.",
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        attestations: Type.Array(schemaRef(FeeLeafSchema)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const getSummary = {
  config,
  schema: {
    operationId: 'getAttestationSummary',
    summary: 'Sums of the fees, as the latest signed head has them',
    tags,
    response: { 200: AttestationSummarySchema, ...errorResponses },
  },
}

const getHead = {
  config,
  schema: {
    operationId: 'getTreeHead',
    summary: 'The latest signed head of the tree',
    description:
      'Keep it: a ledger that is rewritten later does not fit it. The keys are also in `/.well-known/did.json`.',
    tags,
    response: { 200: schemaRef(TreeHeadSchema), ...errorResponses },
  },
}

const listHeads = {
  config,
  schema: {
    operationId: 'listTreeHeads',
    summary: 'The kept signed heads, the latest first',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        heads: Type.Array(schemaRef(TreeHeadSchema)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const sizeField = (description: string) =>
  Type.Integer({ minimum: 1, maximum: MAX_SIZE, description })

const getConsistency = {
  config,
  schema: {
    operationId: 'getConsistencyProof',
    summary: 'The proof that a later head only appends to an earlier one',
    description: '409 `head_ahead_of_ledger` if a head has more leaves than the tree.',
    tags,
    querystring: Type.Object({
      from: sizeField('The size of the earlier head.'),
      to: Type.Optional(sizeField('The size of the later head; the latest if absent.')),
    }),
    response: { 200: ConsistencyProofSchema, ...errorResponses },
  },
}

const getInclusion = {
  config,
  schema: {
    operationId: 'getInclusionProof',
    summary: 'The proof that a fee is in the tree of a head',
    tags,
    querystring: Type.Object({
      index: Type.Integer({ minimum: 0, maximum: MAX_SIZE, description: 'The index of the fee.' }),
      size: Type.Optional(sizeField('The size of the head; the latest if absent.')),
    }),
    response: { 200: InclusionProofSchema, ...errorResponses },
  },
}

const getDid = {
  config,
  schema: {
    operationId: 'getDidDocument',
    summary: 'The identity of this station (did:web), with the keys that sign attestations',
    tags: ['service'],
    response: { 200: Type.Object({}, { additionalProperties: true }), ...errorResponses },
  },
}

/** Attestations and their keys. */
export const attestationRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { attestations, config: station } = app.services
  const { tree } = attestations
  app.addSchema(FeeLeafSchema)
  app.addSchema(TreeHeadSchema)

  /** The size of the tree; throws for a head that is ahead of it. */
  async function sizeAtLeast(...sizes: (number | undefined)[]): Promise<number> {
    const [latest] = await tree.heads(1, null)
    const size = latest?.size ?? 0
    const asked = Math.max(...sizes.map((one) => one ?? 0))
    if (asked > size)
      throw new ServiceError('head_ahead_of_ledger', {
        detail: `The tree has ${size} leaves, and this head has ${asked}. If this station signed it, its ledger was set back since.`,
        tree_size: size,
      })
    return size
  }

  app.get('/api/attestations', listAttestations, async ({ query }) => {
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.integer,
      (limit, before) => tree.leaves(limit, before),
      ({ index }) => String(index),
    )
    return { attestations: rows.map(toFeeLeafView), count: rows.length, next_cursor }
  })

  app.get('/api/attestations/summary', getSummary, async (_request, reply) => {
    reply.header('cache-control', HEAD_MAX_AGE)
    return toAttestationSummaryView(
      await withDatabaseAnswerTimeout(tree.summary()),
      EMPTY_TREE_ROOT,
    )
  })

  app.get('/api/attestations/head', getHead, async (_request, reply) => {
    const [[head], keys] = await Promise.all([tree.heads(1, null), attestations.verifierKeys()])
    reply.header('cache-control', HEAD_MAX_AGE)
    if (head !== undefined) return toTreeHeadView(head, keys)
    const root = EMPTY_TREE_ROOT.toString('base64')
    return { tree_size: 0, root_hash: root, signed_at: null, note: null, keys }
  })

  app.get('/api/attestations/heads', listHeads, async ({ query }) => {
    const [{ rows, next_cursor }, keys] = await Promise.all([
      paginate(
        query,
        CURSOR_PATTERNS.integer,
        (limit, before) => tree.heads(limit, before),
        ({ size }) => String(size),
      ),
      attestations.verifierKeys(),
    ])
    return {
      heads: rows.map((head) => toTreeHeadView(head, keys)),
      count: rows.length,
      next_cursor,
    }
  })

  app.get('/api/attestations/consistency', getConsistency, async ({ query: { from, to } }) => {
    const end = to ?? (await sizeAtLeast(from))
    await sizeAtLeast(from, end)
    if (from > end) throw invalidInputError('/from', 'must be at most `to`')
    const nodes = await withDatabaseAnswerTimeout(tree.hashes(consistencyPath(from, end)))
    return { from_size: from, to_size: end, consistency: nodes.map(toBase64) }
  })

  app.get('/api/attestations/proof', getInclusion, async ({ query: { index, size } }) => {
    const end = size ?? (await sizeAtLeast())
    await sizeAtLeast(size)
    const leaf = index < end ? await tree.leaf(index) : null
    if (leaf === null) throw new ServiceError('leaf_not_found', { index, tree_size: end })
    const nodes = await withDatabaseAnswerTimeout(tree.hashes(inclusionPath(index, end)))
    return { index, tree_size: end, leaf: leaf.text, inclusion: nodes.map(toBase64) }
  })

  app.get('/.well-known/did.json', getDid, async (_request, reply) => {
    reply.header('cache-control', DID_MAX_AGE)
    return buildDidDocument(station.publicUrl, await attestations.keys())
  })
}

const toBase64 = (hash: Buffer): string => hash.toString('base64')
