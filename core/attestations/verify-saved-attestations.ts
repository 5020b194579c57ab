import {
  feeLeafCommitmentOf,
  parseTreeHead,
  parseFeeLeaf,
  readReceiptLines,
  receiptHeadingOf,
  type TreeHead,
} from './fee-attestations.ts'
import { hashLeaf, isTreeConsistencyProofValid, rootOfInclusion } from './merkle-tree.ts'
import { readVerifiedNoteText, type NoteVerifierKey } from './signed-note.ts'

/** Checks saved answers about attestations without the station: heads, proofs and receipts. */

/** A saved answer: its file and its JSON. */
export interface SavedAttestation {
  readonly name: string
  readonly json: unknown
}

export interface SavedAttestationFinding {
  readonly name: string
  readonly ok: boolean
  /** What was proven, or what does not hold. */
  readonly says: string
}

class Refuted extends Error {}

type Fields = Readonly<Record<string, unknown>>

/**
 * Checks each answer with the keys. Heads of all answers belong together: proofs have to lead from each to the
 * next, else a proof between two later heads would pass for one from the head that was kept.
 */
export function verifySavedAttestations(
  answers: readonly SavedAttestation[],
  keys: readonly NoteVerifierKey[],
): SavedAttestationFinding[] {
  const context: CheckContext = { keys, heads: new Map(), proven: [] }
  const findings = checkEach(answers, context)
  return findings.every(({ ok }) => ok) ? [...findings, ...findGaps(context)] : findings
}

function checkEach(
  answers: readonly SavedAttestation[],
  context: CheckContext,
): SavedAttestationFinding[] {
  const order = answers.map(({ name, json }) => ({ name, ...toChecked(json) }))
  const rank = { head: 0, receipt: 1, consistency: 2, inclusion: 2, unknown: 3 }
  return order
    .toSorted((a, b) => rank[a.kind] - rank[b.kind])
    .map(({ name, kind, fields }) => {
      try {
        return { name, ok: true, says: CHECKS[kind](fields, context) }
      } catch (error) {
        if (error instanceof Refuted) return { name, ok: false, says: error.message }
        throw error
      }
    })
}

interface CheckContext {
  readonly keys: readonly NoteVerifierKey[]
  /** The signed heads so far, by their sizes. */
  readonly heads: Map<number, TreeHead>
  /** The sizes between which a proof of consistency holds. */
  readonly proven: (readonly [from: number, to: number])[]
}

/** The heads that no chain of proofs connects with the smallest one. */
function findGaps({ heads, proven }: CheckContext): SavedAttestationFinding[] {
  const [first = 0, ...others] = [...heads.keys()].toSorted((a, b) => a - b)
  const reached = new Set([first])
  for (let known = 0; known < reached.size;) {
    known = reached.size
    for (const [from, to] of proven)
      if (reached.has(from) || reached.has(to)) reached.add(from).add(to)
  }
  return others
    .filter((size) => !reached.has(size))
    .map((size) => ({
      name: `the head of ${size} fees`,
      ok: false,
      says: `no proof leads to it from the head of ${first} fees: add /api/attestations/consistency?from=${first}&to=${size}`,
    }))
}

type AnswerKind = 'head' | 'receipt' | 'consistency' | 'inclusion' | 'unknown'

function toChecked(json: unknown): { kind: AnswerKind; fields: Fields } {
  const outer = isFields(json) ? json : {}
  const fields = isFields(outer['attestation']) ? outer['attestation'] : outer
  if (Array.isArray(fields['fees'])) return { kind: 'receipt', fields }
  if (Array.isArray(fields['consistency'])) return { kind: 'consistency', fields }
  if (Array.isArray(fields['inclusion'])) return { kind: 'inclusion', fields }
  if (typeof fields['note'] === 'string') return { kind: 'head', fields }
  return { kind: 'unknown', fields }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const CHECKS: Readonly<Record<AnswerKind, (fields: Fields, context: CheckContext) => string>> = {
  head(fields, context) {
    const head = openHead(fields['note'], context)
    return `a head of ${head.size} fees, signed at ${head.at}`
  },

  receipt(fields, context) {
    const { keys } = context
    const text = open(fields['note'], keys)
    const { heading, lines } = readReceiptLines(text)
    if (!keys.some(({ name }) => heading === receiptHeadingOf(name)))
      throw new Refuted('no receipt')
    const valueOf = (name: string) => lines.find(([one]) => one === name)?.[1] ?? ''
    const told = lines.filter(([name]) => name === 'fee').map(([, fee]) => fee)
    const fees = fields['fees'] as unknown[]
    if (fees.length !== told.length) throw new Refuted('the fees are not those that are signed')
    if (fees.length > 0) {
      const head = openHead(fields['head'], context)
      for (const [at, fee] of fees.entries())
        checkFee(isFields(fee) ? fee : {}, told[at] ?? '', valueOf('call'), head)
    }
    const places = fees.map((fee) => (isFields(fee) ? Number(fee['index']) : -1))
    const where = places.length === 0 ? 'without a fee yet' : `with fee ${places.join(', ')}`
    return `a receipt of call ${valueOf('call')}: ${valueOf('tool')} for ${valueOf('cost_micros')} millionths of a USDC, ${where}`
  },

  consistency(fields, { heads, proven }) {
    const [from, to] = [Number(fields['from_size']), Number(fields['to_size'])]
    const [first, second] = [heads.get(from), heads.get(to)]
    if (first === undefined || second === undefined)
      throw new Refuted(`give the signed heads of ${from} and of ${to} fees too`)
    if (!isTreeConsistencyProofValid(first, second, toHashes(fields['consistency'])))
      throw new Refuted(`the head of ${to} fees does not continue the one of ${from}`)
    proven.push([from, to])
    return `the first ${from} of ${to} fees are unchanged`
  },

  inclusion(fields, { heads }) {
    const [index, size] = [Number(fields['index']), Number(fields['tree_size'])]
    const head = heads.get(size)
    if (head === undefined) throw new Refuted(`give the signed head of ${size} fees too`)
    checkInclusion(fields, head)
    return `fee ${index} is one of the ${size}: ${String(fields['leaf'])}`
  },

  unknown() {
    throw new Refuted('neither a head, nor a proof, nor a receipt')
  },
}

function open(note: unknown, keys: readonly NoteVerifierKey[]): string {
  for (const key of keys) {
    const text = typeof note === 'string' ? readVerifiedNoteText(note, key) : null
    if (text !== null) return text
  }
  throw new Refuted('not signed with the given key')
}

function openHead(note: unknown, { keys, heads }: CheckContext): TreeHead {
  const head = parseTreeHead(open(note, keys))
  if (head === null || !keys.some(({ name }) => name === head.origin)) throw new Refuted('no head')
  const other = heads.get(head.size)
  if (other !== undefined && !Buffer.from(other.root).equals(head.root))
    throw new Refuted(`two signed heads of ${head.size} fees differ: the station has two histories`)
  heads.set(head.size, head)
  return head
}

function checkFee(fee: Fields, told: string, callId: string, head: TreeHead): void {
  const [index, opening] = [fee['index'], String(fee['opening'])]
  if (told !== `${String(index)} ${opening}`)
    throw new Refuted('a fee is not the one that is signed')
  const leaf = parseFeeLeaf(String(fee['leaf']))
  if (leaf === null || feeLeafCommitmentOf(opening) !== leaf.commitment)
    throw new Refuted(`fee ${String(index)} is not the one of its opening`)
  if (opening.split(' ')[2] !== callId)
    throw new Refuted(`fee ${String(index)} is one of another call`)
  checkInclusion(fee, head)
}

function checkInclusion(fields: Fields, head: TreeHead): void {
  const { size } = head
  const index = Number(fields['index'])
  const leafHash = hashLeaf(String(fields['leaf']))
  const root = rootOfInclusion(leafHash, index, size, toHashes(fields['inclusion']))
  if (root === null || !root.equals(head.root))
    throw new Refuted(`fee ${index} is not in the tree of the head of ${size} fees`)
}

const toHashes = (nodes: unknown): Buffer[] =>
  (Array.isArray(nodes) ? nodes : []).map((node) => Buffer.from(String(node), 'base64'))
