import { sha256Hex } from '../key-derivation-and-encryption.ts'
import { TREE_HASH_BYTES, type TreeSizeAndRoot } from './merkle-tree.ts'

/** The texts of attestations: leaves, tree heads and receipts of calls. */

/** A movement into or out of the station's fees, as a leaf shows it: no agent, no call, no second. */
export interface FeeLeaf {
  /** The minute of the movement, such as `2026-11-23T18:36Z`. */
  readonly minute: string
  readonly kind: string
  /** Below zero for what leaves the fees. */
  readonly amountMicros: bigint
  /** SHA-256 of the opening, in hex. */
  readonly commitment: string
}

const LEAF_VERSION = 'gas-fee-v1'
const LEAF_PATTERN =
  /^gas-fee-v1 (\d{4}-\d\d-\d\dT\d\d:\d\dZ) ([a-z_]{1,32}) (-?[1-9]\d{0,18}) ([0-9a-f]{64})$/

/** The text whose hash is the leaf. */
export const toFeeLeafText = ({ minute, kind, amountMicros, commitment }: FeeLeaf): string =>
  `${LEAF_VERSION} ${minute} ${kind} ${amountMicros} ${commitment}`

export function parseFeeLeaf(text: string): FeeLeaf | null {
  const [, minute, kind, amount, commitment] = LEAF_PATTERN.exec(text) ?? []
  if (minute === undefined || kind === undefined || amount === undefined) return null
  return { minute, kind, amountMicros: BigInt(amount), commitment: commitment ?? '' }
}

export const toFeeLeafMinute = (at: Date): string => `${at.toISOString().slice(0, 16)}Z`

/** The salt of a leaf, 128 bits in hex, from the random seed of its append (`fee_leaf_salt` in SQL). */
export const deriveFeeLeafSalt = (seedHex: string, ledgerId: string): string =>
  sha256Hex(`${seedHex} ${ledgerId}`).slice(0, 32)

/** What a leaf hides: a salt, the row of the ledger, and the call if there is one. */
export const toFeeLeafCommitmentOpening = (
  salt: string,
  ledgerId: string,
  callId: string | null,
): string => `${salt} ${ledgerId} ${callId ?? '-'}`

/** The commitment of a leaf to its opening. */
export const feeLeafCommitmentOf = (opening: string): string => sha256Hex(opening)

/** A tree with the time of its signature. */
export interface TreeHead extends TreeSizeAndRoot {
  readonly origin: string
  readonly at: string
}

const HEAD_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** The text of a tree head (c2sp.org/tlog-checkpoint) with its time as the one extension line. */
export const formatTreeHead = ({ origin, size, root, at }: TreeHead): string =>
  `${origin}\n${size}\n${Buffer.from(root).toString('base64')}\n${at}\n`

export function parseTreeHead(text: string): TreeHead | null {
  const [origin = '', size = '', root = '', at = '', end, ...more] = text.split('\n')
  const bytes = Buffer.from(root, 'base64')
  const isHead =
    origin !== '' &&
    /^(0|[1-9]\d{0,15})$/.test(size) &&
    bytes.length === TREE_HASH_BYTES &&
    HEAD_TIME.test(at) &&
    end === '' &&
    more.length === 0
  return isHead ? { origin, size: Number(size), root: bytes, at } : null
}

/** What the station says of a call when it is asked for a receipt. */
export interface CallReceiptStatement {
  readonly origin: string
  readonly callId: string
  readonly tool: string
  readonly rail: string
  readonly costMicros: bigint
  readonly at: string
  /** HMAC-SHA256 of the request and the key to check it; null if it is not known or not shown. */
  readonly request: { readonly hash: string; readonly key: string } | null
  /** SHA-256 of the body of the answer; null if it is not known. */
  readonly answerHash: string | null
  /** The leaves of the fees of the call. */
  readonly fees: readonly { readonly index: number; readonly opening: string }[]
}

const RECEIPT_VERSION = 'receipt-v1'

/** The first line of a receipt, so that no signature of it is one of a tree head. */
export const receiptHeadingOf = (origin: string): string => `${origin} ${RECEIPT_VERSION}`

/** The text of a receipt: a name and its value a line. */
export function toReceiptText(statement: CallReceiptStatement): string {
  const { origin, callId, tool, rail, costMicros, at, request, answerHash, fees } = statement
  const lines = [
    receiptHeadingOf(origin),
    `call ${callId}`,
    `tool ${tool}`,
    `rail ${rail}`,
    `cost_micros ${costMicros}`,
    `at ${at}`,
    `request ${request === null ? '-' : `${request.hash} ${request.key}`}`,
    `answer ${answerHash ?? '-'}`,
    ...fees.map(({ index, opening }) => `fee ${index} ${opening}`),
  ]
  return `${lines.join('\n')}\n`
}

/** The lines of a receipt after its heading, by their names. */
export function readReceiptLines(text: string): { heading: string; lines: [string, string][] } {
  const [heading = '', ...rest] = text.trimEnd().split('\n')
  const lines = rest.map((line): [string, string] => {
    const at = line.indexOf(' ')
    return [line.slice(0, at), line.slice(at + 1)]
  })
  return { heading, lines }
}
