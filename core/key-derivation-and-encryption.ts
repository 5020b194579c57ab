import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createSecretKey,
  hash,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto'

/** Key derivation from the master key, AES-256-GCM envelopes and HMAC. */

const VERSION = 'v1'
const KEY_BYTES = 32
const KEY_ID_BYTES = 4
const IV_BYTES = 12
const TAG_BYTES = 16
const HEADER_BYTES = VERSION.length + KEY_ID_BYTES + IV_BYTES + TAG_BYTES

declare const secret: unique symbol
/** The 32 bytes that all other keys are derived from. Never used as a key itself. */
export type MasterKey = Buffer & { readonly [secret]: 'master' }

/**
 * The master keys of a process. The first one encrypts; the others only decrypt older envelopes.
 */
export type MasterKeys = readonly [MasterKey, ...MasterKey[]]

/** Purposes of envelopes. They are re-encrypted when the master key changes. */
export type EncryptionPurpose = 'keyring' | 'wallet' | 'answers' | 'webhook' | 'station'
/**
 * Purposes of keys for hashes, signatures and pseudonyms. They do not change with the master key.
 */
export const STATION_KEY_PURPOSES = [
  'pepper',
  'visitor',
  'mpp',
  'fingerprints',
  'receipts',
  'inspector',
  'origins',
  'builders',
] as const
export type StationKeyPurpose = (typeof STATION_KEY_PURPOSES)[number]
/** The purpose of a key. No two purposes share a key. */
export type KeyPurpose = EncryptionPurpose | StationKeyPurpose

/** A derived envelope key. Envelopes name it by its id. */
export interface EncryptionKey {
  readonly id: string
  readonly purpose: KeyPurpose
  readonly bytes: Buffer
}

/** One key, or several during a rotation: the first encrypts, all decrypt. */
export type EncryptionKeys = EncryptionKey | readonly [EncryptionKey, ...EncryptionKey[]]

/** Parses a master key. Throws unless it is 32 bytes in base64. */
export function parseMasterKey(base64: string): MasterKey {
  const bytes = Buffer.from(base64, 'base64')
  const spelled = bytes.toString('base64').replace(/=+$/, '')
  if (bytes.length !== KEY_BYTES || spelled !== base64.trim().replace(/=+$/, '')) {
    throw new Error('MASTER_KEY must be 32 bytes in base64')
  }
  return bytes as MasterKey
}

/** Derives the key of a purpose: HKDF-SHA256 over the master key. */
export const deriveSubkey = (master: MasterKey, purpose: KeyPurpose): Buffer =>
  derive(master, `gas-station/${purpose}`, KEY_BYTES)

/** The id of a master key in envelopes and messages. Reveals nothing about the key. */
export const masterKeyId = (master: MasterKey): string =>
  derive(master, 'gas-station/key-id', KEY_ID_BYTES).toString('hex')

/** Derives the envelope key of a purpose. Its id depends on the master key only. */
export const deriveEncryptionKey = (
  master: MasterKey,
  purpose: EncryptionPurpose,
): EncryptionKey => ({
  id: masterKeyId(master),
  purpose,
  bytes: deriveSubkey(master, purpose),
})

/** Derives the envelope keys of a purpose, one per master key. */
export const deriveEncryptionKeys = (
  [first, ...rest]: MasterKeys,
  purpose: EncryptionPurpose,
): EncryptionKeys => [
  deriveEncryptionKey(first, purpose),
  ...rest.map((master) => deriveEncryptionKey(master, purpose)),
]

const listOf = (keys: EncryptionKeys): readonly EncryptionKey[] => ('id' in keys ? [keys] : keys)

/** The key that encrypts. */
export const primaryEncryptionKey = (keys: EncryptionKeys): EncryptionKey =>
  'id' in keys ? keys : keys[0]

function derive(master: MasterKey, info: string, length: number): Buffer {
  return Buffer.from(hkdfSync('sha256', master, Buffer.alloc(0), info, length))
}

/**
 * Encrypts an AES-256-GCM envelope: `v1`, key id, IV, tag, ciphertext. `aad` names the owner
 * (agent, Backpack, name); an envelope moved to another owner cannot be decrypted.
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
 * Decrypts an envelope with the key it names. Throws on another version, an unknown key, another
 * owner or a changed byte.
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
  // Without authTagLength Node 20 accepts a tag truncated to four bytes.
  const decipher = createDecipheriv('aes-256-gcm', key.bytes, iv, { authTagLength: TAG_BYTES })
  decipher.setAAD(bindings(key, aad))
  decipher.setAuthTag(tag)
  return Buffer.concat([decipher.update(envelope.subarray(at)), decipher.final()])
}

/** Returns the id of the key that encrypted an envelope. */
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

/** Prefixes each part with its length, so that different lists never give the same bytes. */
function bindings(key: EncryptionKey, aad: readonly string[]): Buffer {
  const parts = [VERSION, key.id, key.purpose, ...aad].map((part) => Buffer.from(part, 'utf8'))
  return Buffer.concat(parts.flatMap((part) => [lengthOf(part), part]))
}

function lengthOf(part: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(part.length)
  return length
}

const keyObjects = new WeakMap<Buffer, KeyObject>()

/** Preparing a key takes longer than a short HMAC. */
function keyObjectOf(key: Buffer): KeyObject {
  const known = keyObjects.get(key)
  if (known !== undefined) return known
  const made = createSecretKey(key)
  keyObjects.set(key, made)
  return made
}

const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
/** Longer texts gain nothing. */
const MAX_SHORT_TEXT = 512

/** The two inputs of an HMAC (RFC 2104) behind their padded keys, each in its own buffer. */
interface HmacInputs {
  readonly inner: Buffer
  readonly outer: Buffer
}

const hmacInputs = new WeakMap<Buffer, HmacInputs>()

function hmacInputsOf(key: Buffer): HmacInputs {
  const known = hmacInputs.get(key)
  if (known !== undefined) return known
  const inner = Buffer.alloc(BLOCK_BYTES + MAX_SHORT_TEXT * 3)
  const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES)
  for (let at = 0; at < BLOCK_BYTES; at++) {
    inner[at] = (key[at] ?? 0) ^ 0x36
    outer[at] = (key[at] ?? 0) ^ 0x5c
  }
  const made = { inner, outer }
  hmacInputs.set(key, made)
  return made
}

/**
 * An HMAC as text: a buffer of its own costs as much as the HMAC. `binary` has a character for each byte.
 * For a short text two plain hashes take less than two thirds of the time of an HMAC object.
 */
export function hmacSha256AsEncodedText(
  key: Buffer,
  text: string,
  encoding: 'hex' | 'binary',
): string {
  if (text.length > MAX_SHORT_TEXT || key.length > BLOCK_BYTES)
    return createHmac('sha256', keyObjectOf(key)).update(text, 'utf8').digest(encoding)
  const { inner, outer } = hmacInputsOf(key)
  const end = BLOCK_BYTES + inner.write(text, BLOCK_BYTES, 'utf8')
  outer.write(hash('sha256', inner.subarray(0, end), 'binary'), BLOCK_BYTES, 'latin1')
  return hash('sha256', outer, encoding)
}

export const hmacSha256 = (key: Buffer, text: string): Buffer =>
  createHmac('sha256', keyObjectOf(key)).update(text, 'utf8').digest()

/** A SHA-256 in hex. */
export const sha256Hex = (text: string): string => hash('sha256', text)

/** Compares two secrets in constant time, for any lengths. */
export function timingSafeTextEqual(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text, 'utf8').digest()
  return timingSafeEqual(digest(a), digest(b))
}
