import { PaymentProblem } from './onchain-payment-types.ts'
import { isRecord, isUint256Text, parseUntrustedBase64JsonHeader } from './untrusted-json.ts'

/** An object of a decoded payment header, with typed reads that throw if a field is malformed. */
export interface DecodedPaymentHeader {
  text(name: string): string
  /** 0x and 20 bytes; in lower case, because viem throws on a wrong checksum. */
  address(name: string): string
  uint(name: string): bigint
  /** 0x and `least` to `most` bytes, in lower case. */
  bytes(name: string, least: number, most: number): `0x${string}`
  nested(name: string): DecodedPaymentHeader
  /** The nested object; null if the field is absent or anything else. */
  optional(name: string): DecodedPaymentHeader | null
  /** The field as it is; undefined if it is absent. */
  value(name: string): unknown
}

/** Decodes the JSON object of a payment header; null for anything else. */
export function decodePaymentHeader(text: string): DecodedPaymentHeader | null {
  const object = parseUntrustedBase64JsonHeader(text)
  return object === null ? null : createDocument(object, 'the payment', '')
}

const malformed = (detail: string) => new PaymentProblem(400, 'invalid_payload', detail)

const ADDRESS_BYTES = 20

/** Reads the object `at`; errors name its objects by `prefix`. */
function createDocument(
  object: Readonly<Record<string, unknown>>,
  at: string,
  prefix = `${at}.`,
): DecodedPaymentHeader {
  const value = (name: string) => (Object.hasOwn(object, name) ? object[name] : undefined)
  const text = (name: string) => {
    const given = value(name)
    if (typeof given === 'string') return given
    throw malformed(`${at}.${name} must be a string`)
  }
  const bytes = (name: string, least: number, most: number) =>
    assertHex(text(name), least, most, `${at}.${name}`)
  const optional = (name: string) => {
    const given = value(name)
    return isRecord(given) ? createDocument(given, `${prefix}${name}`) : null
  }
  return {
    value,
    text,
    bytes,
    optional,
    address: (name) => bytes(name, ADDRESS_BYTES, ADDRESS_BYTES),
    uint(name) {
      const given = value(name)
      if (isUint256Text(given)) return BigInt(given)
      throw malformed(`${at}.${name} must be a decimal string below 2^256`)
    },
    nested(name) {
      const given = optional(name)
      if (given !== null) return given
      throw malformed(`${prefix}${name} must be an object`)
    },
  }
}

function assertHex(given: string, least: number, most: number, at: string): `0x${string}` {
  const bytes = (given.length - 2) / 2
  if (/^0x(?:[0-9a-fA-F]{2})*$/.test(given) && bytes >= least && bytes <= most) {
    return `0x${given.slice(2).toLowerCase()}`
  }
  const size = least === most ? least : `${least} to ${most}`
  throw malformed(`${at} must be 0x and ${size} bytes of hex`)
}
