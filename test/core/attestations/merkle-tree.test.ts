import { createHash } from 'node:crypto'
import t from 'tap'
import {
  appendLeavesToTreeRightEdge,
  consistencyPath,
  rootOfTreeRightEdge,
  EMPTY_TREE_RIGHT_EDGE,
  foldCompleteSubtree,
  hashLeaf,
  inclusionPath,
  isTreeConsistencyProofValid,
  hashNodeFromSubtrees,
  parseTreeRightEdge,
  rootOfInclusion,
  splitIntoSubtrees,
  toTreeRightEdgeBytes,
  type HashedSubtree,
  type LeafRange,
} from '../../../core/attestations/merkle-tree.ts'

/** The hash tree against the definitions of RFC 9162, 2.1, written down here a second time. */

const sha256 = (...parts: Uint8Array[]) =>
  createHash('sha256').update(Buffer.concat(parts)).digest()

/** MTH({}) and MTH(D_n) of RFC 9162, 2.1.1, word by word. */
function mth(data: readonly Buffer[]): Buffer {
  if (data.length === 0) return sha256()
  const [first] = data
  if (data.length === 1 && first !== undefined) return sha256(Buffer.of(0), first)
  let k = 1
  while (k * 2 < data.length) k *= 2
  return sha256(Buffer.of(1), mth(data.slice(0, k)), mth(data.slice(k)))
}

const SIZES = 200
const data = Array.from({ length: SIZES }, (_, at) => Buffer.from(`leaf ${at}`))
const known = new Map<string, Buffer>()
/** The same over a part of the data, with what is already known. */
function nodeOf({ start, end }: LeafRange): Buffer {
  const name = `${start} ${end}`
  let k = 1
  while (k * 2 < end - start) k *= 2
  const middle = start + k
  const hash =
    known.get(name) ??
    (end - start < 2
      ? mth(data.slice(start, end))
      : sha256(Buffer.of(1), nodeOf({ start, end: middle }), nodeOf({ start: middle, end })))
  known.set(name, hash)
  return hash
}
const rootOf = (size: number) => nodeOf({ start: 0, end: size })
const edgeOf = (leaves: readonly Buffer[]) =>
  appendLeavesToTreeRightEdge(
    EMPTY_TREE_RIGHT_EDGE,
    leaves.map((leaf) => hashLeaf(leaf)),
  )

t.test('roots are those that the Certificate Transparency logs test with', async (t) => {
  const inputs = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657']
  const leaves = [...inputs, '606162636465666768696a6b6c6d6e6f'].map((hex) =>
    Buffer.from(hex, 'hex'),
  )
  const roots = [
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
    'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
    '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
    'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
    '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
  ]
  for (const [size, root] of roots.entries()) {
    t.equal(mth(leaves.slice(0, size)).toString('hex'), root, `${size} by the definition`)
    t.equal(
      rootOfTreeRightEdge(edgeOf(leaves.slice(0, size))).toString('hex'),
      root,
      `${size} by our code`,
    )
  }
})

t.test('a tree grows by appending, in parts of any size, to the same roots', async (t) => {
  const stored: HashedSubtree[] = []
  let edge = EMPTY_TREE_RIGHT_EDGE
  const more = Array.from({ length: 600 }, (_, at) => Buffer.from(`leaf ${at}`))
  for (let at = 0, part = 1; at < more.length; at += part, part = (part % 7) + 1) {
    const next = more.slice(at, at + part).map((leaf) => hashLeaf(leaf))
    edge = appendLeavesToTreeRightEdge(
      parseTreeRightEdge(edge.size, toTreeRightEdgeBytes(edge)),
      next,
      (one) => stored.push(one),
    )
    if (edge.size <= SIZES && !rootOfTreeRightEdge(edge).equals(rootOf(edge.size)))
      t.fail(`another root of ${edge.size}`)
  }
  t.strictSame(rootOfTreeRightEdge(edge), mth(more))
  t.match(stored, [
    { level: 8, index: 0 },
    { level: 8, index: 1 },
  ])
  t.strictSame(stored[1]?.hash, mth(more.slice(256, 512)), 'complete subtrees are kept')
  t.strictSame(
    foldCompleteSubtree(more.slice(0, 256).map((leaf) => hashLeaf(leaf))),
    stored[0]?.hash,
  )
})

t.test('every leaf of every tree has a proof, and no other one', async (t) => {
  let proofs = 0
  for (let size = 1; size <= SIZES; size += 1) {
    for (let index = 0; index < size; index += 1) {
      const proof = inclusionPath(index, size).map((node) => nodeOf(node))
      const leaf = hashLeaf(data[index] ?? '')
      const root = rootOf(size)
      if (rootOfInclusion(leaf, index, size, proof)?.equals(root) !== true)
        t.fail(`leaf ${index} of ${size}`)
      proofs += 1
      if ((index + size) % 7 !== 0) continue
      const wrong = [
        rootOfInclusion(hashLeaf('another'), index, size, proof),
        rootOfInclusion(leaf, index, size, proof.slice(1)),
        rootOfInclusion(leaf, index, size, [...proof, leaf]),
        rootOfInclusion(leaf, (index + 1) % (size + 1), size, proof),
        rootOfInclusion(leaf, index, size, proof.toReversed()),
      ]
      const accepted = wrong.findIndex((found) => found?.equals(root) === true)
      const isSymmetric = accepted === 4 && proof.length < 2
      const isEmptyProof = accepted === 1 && proof.length === 0
      if (accepted !== -1 && !isSymmetric && !isEmptyProof)
        t.fail(`leaf ${index} of ${size}: wrong proof ${accepted} is accepted`)
    }
  }
  t.equal(proofs, (SIZES * (SIZES + 1)) / 2)
})

t.test('every tree is proven to continue every smaller one, and no other', async (t) => {
  for (let size = 1; size <= SIZES; size += 1) {
    const second = { size, root: rootOf(size) }
    for (let from = 1; from <= size; from += 1) {
      const proof = consistencyPath(from, size).map((node) => nodeOf(node))
      const first = { size: from, root: rootOf(from) }
      if (!isTreeConsistencyProofValid(first, second, proof)) t.fail(`${from} to ${size}`)
      if ((from + size) % 5 !== 0) continue
      const other = { size: from, root: hashLeaf('another tree') }
      const wrong = [
        isTreeConsistencyProofValid(other, second, proof),
        isTreeConsistencyProofValid(first, { size, root: other.root }, proof),
        isTreeConsistencyProofValid(first, second, [...proof, other.root]),
        proof.length > 0 && isTreeConsistencyProofValid(first, second, proof.slice(1)),
        from < size && isTreeConsistencyProofValid(second, first, proof),
      ]
      if (wrong.includes(true)) t.fail(`${from} to ${size}: a wrong proof is accepted`)
    }
  }
  t.strictSame(rootOf(SIZES), mth(data), 'the known parts are those of the definition')
  t.ok(isTreeConsistencyProofValid({ size: 0, root: sha256() }, { size: 3, root: rootOf(3) }, []))
})

t.test('nodes are joined from complete subtrees', async (t) => {
  for (let size = 1; size <= SIZES; size += 13)
    for (const path of [inclusionPath(size >> 1, size), consistencyPath((size >> 1) + 1, size)])
      for (const node of path) {
        const parts = splitIntoSubtrees(node).map(({ level, index }) =>
          nodeOf({ start: index * 2 ** level, end: (index + 1) * 2 ** level }),
        )
        t.ok(hashNodeFromSubtrees(parts).equals(nodeOf(node)), `${node.start} to ${node.end}`)
      }
})
