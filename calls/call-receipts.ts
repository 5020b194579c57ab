import {
  hmacSha256AsEncodedText,
  timingSafeTextEqual,
} from '../core/key-derivation-and-encryption.ts'
import { isUuid } from '../core/ids-and-api-keys.ts'
import { formatUsdc, type Micros } from '../core/money.ts'
import type { CallRow } from '../core/aggregate-commit-row-types.ts'

/** The call data that a receipt signs. */
export type ReceiptFields = Pick<CallRow, 'callId' | 'agentId' | 'tool' | 'rail' | 'cost' | 'at'>

const RECEIPT_VERSION = 'gr1'
const MAC_BYTES = 32
const ID_BYTES = 16
const OWNER_AT = MAC_BYTES + ID_BYTES
/** Encoding of the owner in a receipt. */
const OWNER = { uuid: 0, hash: 1, text: 2 } as const

/**
 * Signs a receipt, the proof that this service settled a call at this price: `gr1.` and base64url
 * of an HMAC-SHA256 over id, agent, tool, rail, price and time, the call id, and the owner. The
 * owner is masked with the key, so that a receipt does not reveal the caller.
 */
export function signCallReceipt(key: Buffer, row: ReceiptFields, owner: string): string {
  const [kind, encoding, text] = encodeOwner(owner)
  const size = OWNER_AT + 1 + Buffer.byteLength(text, encoding)
  const bytes = Buffer.allocUnsafe(size)
  bytes.write(macOf(key, row), 0, 'latin1')
  bytes.write(hexOfUuid(row.callId), MAC_BYTES, 'hex')
  bytes[OWNER_AT] = kind
  bytes.write(text, OWNER_AT + 1, encoding)
  mask(key, row.callId, bytes, OWNER_AT)
  return `${RECEIPT_VERSION}.${bytes.toString('base64url')}`
}

/** Whether a receipt belongs to a call. Also accepts the older form without call id and owner. */
export function verifyCallReceipt(
  key: Buffer,
  row: ReceiptFields,
  owner: string,
  receipt: string,
): boolean {
  const mac = Buffer.from(macOf(key, row), 'latin1').toString('base64url')
  const first = `${RECEIPT_VERSION}.${mac}`
  return [first, signCallReceipt(key, row, owner)].some((one) => timingSafeTextEqual(one, receipt))
}

/** A call in the call log. */
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
  /** Private: excluded from public statistics. */
  readonly ghost: boolean
  /** Admission time. */
  readonly at: Date
}

/** A call with the owner of its log: an agent, a visitor or a payer account. */
export type OwnedCall = ReceiptableCall & { readonly owner: string }

export interface CallReceipts {
  /** Returns the receipt of an owner's call; null for a failed call. */
  receiptFor(owner: string, call: ReceiptableCall): string | null
  /** Returns the call of a receipt; null for anything that is not a receipt of this service. */
  findCall(receipt: string): Promise<OwnedCall | null>
}

interface CallFinder {
  find(owner: string, callId: string): Promise<ReceiptableCall | null>
}

/** Signs and looks up receipts of logged calls. */
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
      return timingSafeTextEqual(genuine, receipt) ? { ...call, owner: place.owner } : null
    },
  }
}

const receipted = (owner: string, call: ReceiptableCall): ReceiptFields => ({
  ...call,
  agentId: isUuid(owner) ? owner : null,
  at: call.at.getTime(),
})

/** The MAC, with a character for each byte. */
function macOf(key: Buffer, row: ReceiptFields): string {
  const { callId, agentId, tool, rail, cost, at } = row
  const words = `${RECEIPT_VERSION}|${callId}|${agentId ?? '-'}|${tool ?? '-'}|${rail}|${formatUsdc(cost)}|${at}`
  return hmacSha256AsEncodedText(key, words, 'binary')
}

/** Decodes the owner and call id of a receipt. Returns null when malformed. */
function placeOf(key: Buffer, receipt: string): { owner: string; callId: string } | null {
  const [form, text = ''] = receipt.split('.')
  const bytes = Buffer.from(text, 'base64url')
  if (form !== RECEIPT_VERSION || bytes.length <= MAC_BYTES + ID_BYTES + 1) return null
  const callId = uuidText(bytes.subarray(MAC_BYTES, OWNER_AT))
  mask(key, callId, bytes, OWNER_AT)
  const owner = ownerText(bytes.subarray(OWNER_AT))
  return owner === null ? null : { owner, callId }
}

/** XORs the bytes behind `from` with a key stream of the call: masks and unmasks. */
function mask(key: Buffer, callId: string, bytes: Buffer, from: number): void {
  for (let at = from; at < bytes.length; at += MAC_BYTES) {
    const stream = hmacSha256AsEncodedText(
      key,
      `${RECEIPT_VERSION}-owner|${callId}|${at - from}`,
      'binary',
    )
    const end = Math.min(MAC_BYTES, bytes.length - at)
    for (let byte = 0; byte < end; byte += 1)
      bytes[at + byte] = (bytes[at + byte] ?? 0) ^ stream.charCodeAt(byte)
  }
}

const HASH = /^[0-9a-f]{64}$/

/** The owner is an agent, a visitor (a hash) or a payer account: its kind, and how its text is encoded. */
function encodeOwner(owner: string): [kind: number, encoding: 'hex' | 'utf8', text: string] {
  if (isUuid(owner)) return [OWNER.uuid, 'hex', hexOfUuid(owner)]
  return HASH.test(owner) ? [OWNER.hash, 'hex', owner] : [OWNER.text, 'utf8', owner]
}

function ownerText(bytes: Buffer): string | null {
  const rest = bytes.subarray(1)
  if (bytes[0] === OWNER.uuid) return rest.length === ID_BYTES ? uuidText(rest) : null
  if (bytes[0] === OWNER.hash) return rest.length === MAC_BYTES ? rest.toString('hex') : null
  const text = rest.toString('utf8')
  return bytes[0] === OWNER.text && !text.includes('\0') ? text : null
}

const hexOfUuid = (id: string): string =>
  id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18) + id.slice(19, 23) + id.slice(24)
const uuidText = (bytes: Buffer): string =>
  bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
