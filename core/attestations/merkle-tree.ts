import { createHash, hash } from 'node:crypto'

/** The hash tree of RFC 9162 (2.1), which is that of RFC 6962: hashes, positions and proofs. No I/O. */

export const TREE_HASH_BYTES = 32
/** Hashes of complete subtrees are stored at every eighth level, so they cost little and a proof reads few. */
export const STORED_TREE_LEVEL_STEP = 8

const LEAF_PREFIX = Buffer.of(0)
const NODE_PREFIX = Buffer.of(1)

/** In one step where the leaf is text: an object for a hash takes three times as long. */
export const hashLeaf = (leaf: string | Uint8Array): Buffer =>
  typeof leaf === 'string'
    ? hash('sha256', `\0${leaf}`, 'buffer')
    : createHash('sha256').update(LEAF_PREFIX).update(leaf).digest()

const hashNode = (left: Uint8Array, right: Uint8Array): Buffer =>
  hash('sha256', Buffer.concat([NODE_PREFIX, left, right]), 'buffer')

/** The root of a tree without leaves. */
export const EMPTY_TREE_ROOT: Buffer = createHash('sha256').digest()

/** The leaves from `start` to `end`, exclusive. As a node of a tree it is its hash (MTH in RFC 9162). */
export interface LeafRange {
  readonly start: number
  readonly end: number
}

/** A complete subtree: 2^level leaves, the `index`th of its level. */
export interface CompleteSubtree {
  readonly level: number
  readonly index: number
}

/** A complete subtree that has just been completed, with its hash. */
export interface HashedSubtree extends CompleteSubtree {
  readonly hash: Buffer
}

/**
 * The right edge of a growing tree: the hashes of its maximal complete subtrees, largest first. Appending needs
 * nothing else of the tree.
 */
export interface TreeRightEdge {
  readonly size: number
  readonly peaks: readonly Buffer[]
}

export const EMPTY_TREE_RIGHT_EDGE: TreeRightEdge = { size: 0, peaks: [] }

/** Appends leaf hashes. `onStored` is told of complete subtrees at the levels that are stored. */
export function appendLeavesToTreeRightEdge(
  { size, peaks }: TreeRightEdge,
  leafHashes: readonly Buffer[],
  onStored: (subtree: HashedSubtree) => void = () => {},
): TreeRightEdge {
  const edge = [...peaks]
  let count = size
  for (const leafHash of leafHashes) {
    let hash = leafHash
    let index = count
    for (let level = 1; index % 2 === 1; level += 1) {
      const left = edge.pop()
      if (left === undefined) throw new Error('the edge does not fit the size of its tree')
      hash = hashNode(left, hash)
      index = (index - 1) / 2
      if (level % STORED_TREE_LEVEL_STEP === 0) onStored({ level, index, hash })
    }
    edge.push(hash)
    count += 1
  }
  return { size: count, peaks: edge }
}

export const rootOfTreeRightEdge = ({ peaks }: TreeRightEdge): Buffer => foldRight(peaks)

const foldRight = (hashes: readonly Buffer[]): Buffer =>
  hashes.length === 0 ? EMPTY_TREE_ROOT : hashes.reduceRight((right, left) => hashNode(left, right))

/** The stored form of an edge, whose size is stored beside it. */
export const toTreeRightEdgeBytes = ({ peaks }: TreeRightEdge): Buffer => Buffer.concat(peaks)

export function parseTreeRightEdge(size: number, bytes: Buffer): TreeRightEdge {
  const peaks: Buffer[] = []
  for (let at = 0; at < bytes.length; at += TREE_HASH_BYTES)
    peaks.push(bytes.subarray(at, at + TREE_HASH_BYTES))
  return { size, peaks }
}

/** The largest power of two below a number that is at least 2. */
function splitOf(count: number): number {
  let power = 1
  while (power * 2 < count) power *= 2
  return power
}

/** The nodes of the inclusion proof of a leaf (2.1.3.1), from the leaf to the root. */
export function inclusionPath(index: number, size: number): LeafRange[] {
  const path: LeafRange[] = []
  let [start, end] = [0, size]
  while (end - start > 1) {
    const middle = start + splitOf(end - start)
    if (index < middle) path.push({ start: middle, end })
    else path.push({ start, end: middle })
    if (index < middle) end = middle
    else start = middle
  }
  return path.toReversed()
}

/** The nodes of the consistency proof between two sizes (2.1.4.1), `from` at least 1 and at most `to`. */
export function consistencyPath(from: number, to: number): LeafRange[] {
  const path: LeafRange[] = []
  let [start, end] = [0, to]
  let isKnown = true
  while (end !== from) {
    const middle = start + splitOf(end - start)
    if (from <= middle) {
      path.push({ start: middle, end })
      end = middle
    } else {
      path.push({ start, end: middle })
      start = middle
      isKnown = false
    }
  }
  if (!isKnown) path.push({ start, end })
  return path.toReversed()
}

/** The complete subtrees of a node, left to right. */
export function splitIntoSubtrees({ start, end }: LeafRange): CompleteSubtree[] {
  const parts: CompleteSubtree[] = []
  for (let at = start; at < end;) {
    let [level, leaves] = [0, 1]
    while (at % (leaves * 2) === 0 && at + leaves * 2 <= end) {
      level += 1
      leaves *= 2
    }
    parts.push({ level, index: at / leaves })
    at += leaves
  }
  return parts
}

/** The hash of a node from those of its complete subtrees. */
export const hashNodeFromSubtrees = (hashes: readonly Buffer[]): Buffer => foldRight(hashes)

/** The hash of a complete subtree from those of all its subtrees at one lower level. */
export function foldCompleteSubtree(hashes: readonly Buffer[]): Buffer {
  let row = hashes
  while (row.length > 1)
    row = row.flatMap((left, at) => (at % 2 === 0 ? [hashNode(left, row[at + 1] ?? left)] : []))
  const [root] = row
  if (root === undefined) throw new Error('a subtree has leaves')
  return root
}

/** The root that an inclusion proof leads to (2.1.3.2); null for a proof of another length. */
export function rootOfInclusion(
  leafHash: Uint8Array,
  index: number,
  size: number,
  proof: readonly Uint8Array[],
): Buffer | null {
  if (!Number.isInteger(index) || index < 0 || index >= size) return null
  let [at, last] = [index, size - 1]
  let hash: Buffer = Buffer.from(leafHash)
  for (const node of proof) {
    if (last === 0) return null
    if (at % 2 === 1 || at === last) {
      hash = hashNode(node, hash)
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)]
    } else hash = hashNode(hash, node)
    at = Math.floor(at / 2)
    last = Math.floor(last / 2)
  }
  return last === 0 ? hash : null
}

/** A tree as its size and its root. */
export interface TreeSizeAndRoot {
  readonly size: number
  readonly root: Uint8Array
}

/** Whether a consistency proof shows that the second tree begins with all leaves of the first (2.1.4.2). */
export function isTreeConsistencyProofValid(
  first: TreeSizeAndRoot,
  second: TreeSizeAndRoot,
  proof: readonly Uint8Array[],
): boolean {
  if (first.size > second.size || first.size < 0) return false
  if (first.size === second.size) return proof.length === 0 && isSame(first.root, second.root)
  if (first.size === 0) return proof.length === 0 && isSame(first.root, EMPTY_TREE_ROOT)
  const nodes = isPowerOfTwo(first.size) ? [first.root, ...proof] : [...proof]
  const start = nodes.shift()
  if (start === undefined) return false
  let [at, last] = [first.size - 1, second.size - 1]
  while (at % 2 === 1) [at, last] = [(at - 1) / 2, Math.floor(last / 2)]
  let [one, two]: [Buffer, Buffer] = [Buffer.from(start), Buffer.from(start)]
  for (const node of nodes) {
    if (last === 0) return false
    if (at % 2 === 1 || at === last) {
      one = hashNode(node, one)
      two = hashNode(node, two)
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)]
    } else two = hashNode(two, node)
    at = Math.floor(at / 2)
    last = Math.floor(last / 2)
  }
  return last === 0 && isSame(one, first.root) && isSame(two, second.root)
}

const isSame = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0

function isPowerOfTwo(count: number): boolean {
  let rest = count
  while (rest % 2 === 0) rest /= 2
  return rest === 1
}
