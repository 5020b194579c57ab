import { createHash, randomBytes, randomFillSync } from 'node:crypto'

/** Creates and checks ids and API keys. */

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const KEY_PREFIX = 'gas'
const SECRET_LENGTH = 43
const CHECKSUM_LENGTH = 6
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

const pool = Buffer.alloc(4096)
let used = pool.length
let lastMs = 0
let counter = 0

/**
 * Returns a UUIDv7 (RFC 9562, method 1): 48 bits of milliseconds, then a counter within the
 * millisecond. Ids of one process sort by creation. `at` is the current time in milliseconds.
 */
export function newUuidV7(at: number): string {
  if (used + 8 > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  if (at > lastMs) {
    lastMs = at
    counter = pool.readUInt16BE(used) & 0x7ff
  } else if (++counter > 0xfff) {
    lastMs += 1
    counter = 0
  }
  const time = lastMs.toString(16).padStart(12, '0')
  const sequence = (0x7000 | counter).toString(16)
  const b = (offset: number) => HEX[pool[used + offset] ?? 0] ?? '00'
  const variant = HEX[((pool[used] ?? 0) & 0x3f) | 0x80] ?? '80'
  const id = `${time.slice(0, 8)}-${time.slice(8)}-${sequence}-${variant}${b(1)}-${b(2)}${b(3)}${b(4)}${b(5)}${b(6)}${b(7)}`
  used += 8
  return id
}

const LAST_MS = 2 ** 48 - 1

/**
 * The lowest UUIDv7 of a millisecond: earlier ids are less. Times outside the UUIDv7 range are
 * clamped.
 */
export function minUuidV7At(at: number): string {
  const time = Math.min(Math.max(0, at), LAST_MS).toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`
}
/** The millisecond in which a UUIDv7 was created. */
export const uuidV7Timestamp = (id: string): number =>
  parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const isUuid = (text: string): boolean => UUID.test(text)

/**
 * Returns a new API key: `gas_`, 43 base62 characters (256 random bits), 6 checksum characters
 * (decision 40).
 */
export function newApiKey(): string {
  const secret = randomBase62(SECRET_LENGTH)
  return `${KEY_PREFIX}_${secret}${checksum(secret)}`
}

/** Whether text has the form of a key and a valid checksum, so that typos cost no look-up. */
export function isApiKey(text: string): boolean {
  const [, secret = '', check = ''] = KEY_FORM.exec(text) ?? []
  return secret !== '' && checksum(secret) === check
}
const KEY_FORM = new RegExp(
  `^${KEY_PREFIX}_([0-9A-Za-z]{${SECRET_LENGTH}})([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`,
)

/** Returns a random id with a readable prefix such as `bp_`: 22 base62 characters, 131 bits. */
export const newPrefixedId = (prefix: string): string => `${prefix}_${randomBase62(22)}`

/** Rejection sampling: 248 = 4 x 62, so all characters are equally likely. */
function randomBase62(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += BASE62[byte % 62]
    }
  }
  return text
}

function checksum(secret: string): string {
  let rest = createHash('sha256').update(secret).digest().readUIntBE(0, 6)
  let text = ''
  while (text.length < CHECKSUM_LENGTH) {
    text += BASE62[rest % 62]
    rest = Math.floor(rest / 62)
  }
  return text
}
