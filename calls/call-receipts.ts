import { hmacSha256, timingSafeTextEqual } from '../core/crypto.ts'
import { isUuid } from '../core/ids.ts'
import { formatUsdc, type Micros } from '../core/money.ts'
import type { CallRow } from '../core/commit-rows.ts'

/** What a receipt vouches for. */
export type ReceiptFields = Pick<CallRow, 'callId' | 'agentId' | 'tool' | 'rail' | 'cost' | 'at'>

const RECEIPT_VERSION = 'gr1'
const MAC_BYTES = 32
const ID_BYTES = 16
/** How the owner of a call is spelled in a receipt. */
const OWNER = { uuid: 0, hash: 1, text: 2 } as const

/**
 * Proof that this service settled a call at this price: `gr1.`, and in base64url an HMAC-SHA256 over
 * its id, agent, tool, rail, price and instant; then where the call is found, its id and its owner.
 * The owner is masked with the key, so that a receipt does not say who called.
 */
export function signCallReceipt(key: Buffer, row: ReceiptFields, owner: string): string {
  const place = Buffer.concat([uuidBytes(row.callId), mask(key, row.callId, ownerBytes(owner))])
  return `${RECEIPT_VERSION}.${Buffer.concat([macOf(key, row), place]).toString('base64url')}`
}

/** Whether a receipt is that of a call; also one of the first form, which does not say its place. */
export function verifyCallReceipt(
  key: Buffer,
  row: ReceiptFields,
  owner: string,
  receipt: string,
): boolean {
  const first = `${RECEIPT_VERSION}.${macOf(key, row).toString('base64url')}`
  return [first, signCallReceipt(key, row, owner)].some((one) => timingSafeTextEqual(one, receipt))
}

/** A call as the log keeps it. */
export interface ReceiptableCall {
  readonly callId: string
  readonly tool: string | null
  readonly operation: string
  readonly rail: string
  readonly cost: Micros
  readonly ok: boolean
  readonly errorCode: string | null
  readonly ms: number
  readonly taskId: string | null
  readonly backpackId: string | null
  /** Private: it counts in no public figure. */
  readonly ghost: boolean
  /** The instant it was let in. */
  readonly at: Date
}

export interface CallReceipts {
  /** The receipt of a call of an owner that was answered; null where it failed. */
  receiptFor(owner: string, call: ReceiptableCall): string | null
  /** The call that a receipt vouches for; null for whatever is no receipt of this service. */
  findCall(receipt: string): Promise<ReceiptableCall | null>
}

interface CallFinder {
  find(owner: string, callId: string): Promise<ReceiptableCall | null>
}

/** Receipts of calls in the log, for whoever holds one. */
export function createCallReceipts(key: Buffer, callLog: CallFinder): CallReceipts {
  return {
    receiptFor: (owner, call) =>
      call.ok ? signCallReceipt(key, receipted(owner, call), owner) : null,
    async findCall(receipt) {
      const place = placeOf(key, receipt)
      if (place === null) return null
      const call = await callLog.find(place.owner, place.callId)
      if (call === null || !call.ok) return null
      const genuine = signCallReceipt(key, receipted(place.owner, call), place.owner)
      return timingSafeTextEqual(genuine, receipt) ? call : null
    },
  }
}

const receipted = (owner: string, call: ReceiptableCall): ReceiptFields => ({
  ...call,
  agentId: isUuid(owner) ? owner : null,
  at: call.at.getTime(),
})

function macOf(key: Buffer, row: ReceiptFields): Buffer {
  const { callId, agentId, tool, rail, cost, at } = row
  const words = [RECEIPT_VERSION, callId, agentId ?? '-', tool ?? '-', rail, formatUsdc(cost), at]
  return hmacSha256(key, words.join('|'))
}

/** Where a receipt says its call is; null where it cannot be one. */
function placeOf(key: Buffer, receipt: string): { owner: string; callId: string } | null {
  const [form, text = ''] = receipt.split('.')
  const bytes = Buffer.from(text, 'base64url')
  if (form !== RECEIPT_VERSION || bytes.length <= MAC_BYTES + ID_BYTES + 1) return null
  const callId = uuidText(bytes.subarray(MAC_BYTES, MAC_BYTES + ID_BYTES))
  const owner = ownerText(mask(key, callId, bytes.subarray(MAC_BYTES + ID_BYTES)))
  return owner === null ? null : { owner, callId }
}

/** The same function hides and shows: the stream belongs to one call. */
function mask(key: Buffer, callId: string, bytes: Buffer): Buffer {
  const masked = Buffer.from(bytes)
  for (let at = 0; at < masked.length; at += MAC_BYTES) {
    const stream = hmacSha256(key, `${RECEIPT_VERSION}-owner|${callId}|${at}`)
    const end = Math.min(MAC_BYTES, masked.length - at)
    for (let byte = 0; byte < end; byte += 1)
      masked[at + byte] = (masked[at + byte] ?? 0) ^ (stream[byte] ?? 0)
  }
  return masked
}

const HASH = /^[0-9a-f]{64}$/

/** An agent, a visitor (a hash), or the account of a payer. */
function ownerBytes(owner: string): Buffer {
  if (isUuid(owner)) return Buffer.concat([Buffer.of(OWNER.uuid), uuidBytes(owner)])
  if (HASH.test(owner)) return Buffer.concat([Buffer.of(OWNER.hash), Buffer.from(owner, 'hex')])
  return Buffer.concat([Buffer.of(OWNER.text), Buffer.from(owner, 'utf8')])
}

function ownerText(bytes: Buffer): string | null {
  const rest = bytes.subarray(1)
  if (bytes[0] === OWNER.uuid) return rest.length === ID_BYTES ? uuidText(rest) : null
  if (bytes[0] === OWNER.hash) return rest.length === MAC_BYTES ? rest.toString('hex') : null
  const text = rest.toString('utf8')
  return bytes[0] === OWNER.text && !text.includes('\0') ? text : null
}

const uuidBytes = (id: string): Buffer => Buffer.from(id.replaceAll('-', ''), 'hex')
const uuidText = (bytes: Buffer): string =>
  bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
