import { hash, randomBytes, randomFillSync } from 'node:crypto'

/** Creates and checks ids and API keys. */

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const KEY_PREFIX = 'gas'
const SECRET_LENGTH = 43
const CHECKSUM_LENGTH = 6

const pool = Buffer.alloc(4096)
/** The pool in hex, of which each id takes 16 digits: the variant, then 62 random bits. */
let digits = ''
let used = 0
let lastMs = 0
let time = ''
let counter = 0

/**
 * Returns a UUIDv7 (RFC 9562, method 1): 48 bits of milliseconds, then a counter within the
 * millisecond. Ids of one process sort by creation. `at` is the current time in milliseconds.
 */
export function newUuidV7(at: number): string {
  if (used === digits.length) refillPool()
  if (at > lastMs) {
    setTime(at)
    counter = parseInt(digits.slice(used + 12, used + 15), 16) & 0x7ff
  } else if (++counter > 0xfff) {
    setTime(lastMs + 1)
    counter = 0
  }
  const sequence = (0x7000 | counter).toString(16)
  const id = `${time}-${sequence}-${digits.slice(used, used + 4)}-${digits.slice(used + 4, used + 16)}`
  used += 16
  return id
}

function refillPool(): void {
  randomFillSync(pool)
  for (let at = 0; at < pool.length; at += 8) pool[at] = ((pool[at] ?? 0) & 0x3f) | 0x80
  digits = pool.toString('hex')
  used = 0
}

function setTime(ms: number): void {
  lastMs = ms
  const text = ms.toString(16).padStart(12, '0')
  time = `${text.slice(0, 8)}-${text.slice(8)}`
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
  let rest = parseInt(hash('sha256', secret).slice(0, 12), 16)
  let text = ''
  while (text.length < CHECKSUM_LENGTH) {
    text += BASE62[rest % 62]
    rest = Math.floor(rest / 62)
  }
  return text
}
