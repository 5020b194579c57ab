import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'

const VERSION = 'v1'
const KEY_BYTES = 32
const KEY_ID_BYTES = 4
const IV_BYTES = 12
const TAG_BYTES = 16
const HEADER_BYTES = VERSION.length + KEY_ID_BYTES + IV_BYTES + TAG_BYTES

declare const secret: unique symbol
/** The 32 bytes every other key is derived from. Never used as a key itself. */
export type MasterKey = Buffer & { readonly [secret]: 'master' }

/** The master keys of a process: the first is in use, the others only open what is left of them. */
export type MasterKeys = readonly [MasterKey, ...MasterKey[]]

/** What envelopes are for: sealed anew when the master key changes. */
export type EncryptionPurpose = 'keyring' | 'wallet' | 'answers' | 'webhook' | 'station'
/** What hashes, signatures and pseudonyms are made with: it outlives every master key. */
export const STATION_KEY_PURPOSES = [
  'pepper',
  'visitor',
  'mpp',
  'fingerprints',
  'receipts',
] as const
export type StationKeyPurpose = (typeof STATION_KEY_PURPOSES)[number]
/** What a key is for; no two purposes share one. */
export type KeyPurpose = EncryptionPurpose | StationKeyPurpose

/** A derived key for envelopes, with the id by which an envelope names it. */
export interface EncryptionKey {
  readonly id: string
  readonly purpose: KeyPurpose
  readonly bytes: Buffer
}

/** One key, or while the master key rotates several: the first seals, each of them opens. */
export type EncryptionKeys = EncryptionKey | readonly [EncryptionKey, ...EncryptionKey[]]

/** Reads a master key; throws when it is not 32 bytes of base64. */
export function parseMasterKey(base64: string): MasterKey {
  const bytes = Buffer.from(base64, 'base64')
  const spelled = bytes.toString('base64').replace(/=+$/, '')
  if (bytes.length !== KEY_BYTES || spelled !== base64.trim().replace(/=+$/, '')) {
    throw new Error('MASTER_KEY must be 32 bytes in base64')
  }
  return bytes as MasterKey
}

/** The key of one purpose: HKDF-SHA256 over the master key. */
export const deriveSubkey = (master: MasterKey, purpose: KeyPurpose): Buffer =>
  derive(master, `gas-station/${purpose}`, KEY_BYTES)

/** The name of a master key in envelopes and messages; it says nothing about the key. */
export const masterKeyId = (master: MasterKey): string =>
  derive(master, 'gas-station/key-id', KEY_ID_BYTES).toString('hex')

/** The key of one purpose for `seal` and `open`; its id follows from the master key alone. */
export const deriveEncryptionKey = (
  master: MasterKey,
  purpose: EncryptionPurpose,
): EncryptionKey => ({
  id: masterKeyId(master),
  purpose,
  bytes: deriveSubkey(master, purpose),
})

/** The keys of one purpose for `seal` and `open`. */
export const deriveEncryptionKeys = (
  [first, ...rest]: MasterKeys,
  purpose: EncryptionPurpose,
): EncryptionKeys => [
  deriveEncryptionKey(first, purpose),
  ...rest.map((master) => deriveEncryptionKey(master, purpose)),
]

const listOf = (keys: EncryptionKeys): readonly EncryptionKey[] => ('id' in keys ? [keys] : keys)

/** The one of the keys that seals. */
export const primaryEncryptionKey = (keys: EncryptionKeys): EncryptionKey =>
  'id' in keys ? keys : keys[0]

function derive(master: MasterKey, info: string, length: number): Buffer {
  return Buffer.from(hkdfSync('sha256', master, Buffer.alloc(0), info, length))
}

/**
 * AES-256-GCM envelope: `v1`, key id, IV, tag, ciphertext. `aad` names the owner (agent, Backpack,
 * name), so that a row moved to another owner does not open.
 */
export function encryptEnvelope(
  keys: EncryptionKeys,
  plaintext: Buffer | string,
  aad: readonly string[],
): Buffer {
  const key = primaryEncryptionKey(keys)
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key.bytes, iv, { authTagLength: TAG_BYTES })
  cipher.setAAD(bindings(key, aad))
  const text = typeof plaintext === 'string' ? Buffer.from(plaintext, 'utf8') : plaintext
  const body = Buffer.concat([cipher.update(text), cipher.final()])
  const id = Buffer.from(key.id, 'hex')
  return Buffer.concat([Buffer.from(VERSION, 'latin1'), id, iv, cipher.getAuthTag(), body])
}

/**
 * Opens an envelope with the key it names, of one or, while the master key rotates, of several.
 * Throws on another version, an unknown key, another owner, or a changed byte.
 */
export function decryptEnvelope(
  keys: EncryptionKeys,
  sealed: Uint8Array,
  aad: readonly string[],
): Buffer {
  const envelope = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
  const id = envelopeKeyId(envelope)
  const key = listOf(keys).find((one) => one.id === id)
  if (key === undefined) throw new Error(`no key ${id} to open this envelope with`)
  let at = VERSION.length + KEY_ID_BYTES
  const iv = envelope.subarray(at, (at += IV_BYTES))
  const tag = envelope.subarray(at, (at += TAG_BYTES))
  // Without authTagLength Node 20 accepts a tag cut down to four bytes.
  const decipher = createDecipheriv('aes-256-gcm', key.bytes, iv, { authTagLength: TAG_BYTES })
  decipher.setAAD(bindings(key, aad))
  decipher.setAuthTag(tag)
  return Buffer.concat([decipher.update(envelope.subarray(at)), decipher.final()])
}

/** The id of the key an envelope was sealed with, to find those that need sealing anew. */
export function envelopeKeyId(sealed: Uint8Array): string {
  const envelope = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength)
  if (
    envelope.length < HEADER_BYTES ||
    envelope.toString('latin1', 0, VERSION.length) !== VERSION
  ) {
    throw new Error('this is not an envelope of version v1')
  }
  return envelope.toString('hex', VERSION.length, VERSION.length + KEY_ID_BYTES)
}

/** Each part behind its length: no two lists of parts give the same bytes. */
function bindings(key: EncryptionKey, aad: readonly string[]): Buffer {
  const parts = [VERSION, key.id, key.purpose, ...aad].map((part) => Buffer.from(part, 'utf8'))
  return Buffer.concat(parts.flatMap((part) => [lengthOf(part), part]))
}

function lengthOf(part: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(part.length)
  return length
}

export const hmacSha256 = (key: Buffer, text: string): Buffer =>
  createHmac('sha256', key).update(text, 'utf8').digest()

/** Compares two secrets in a time that depends on neither, whatever their lengths. */
export function timingSafeTextEqual(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text, 'utf8').digest()
  return timingSafeEqual(digest(a), digest(b))
}
