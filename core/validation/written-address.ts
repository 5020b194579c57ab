import { domainToASCII } from 'node:url'
import { EMAIL_PATTERN, EVM_ADDRESS_PATTERN } from './request-schema-regex-patterns.ts'

/** Addresses as people and models write them (decision 451). */

/** The part of a JSON schema that says which kind of address a text is. */
interface TextSchema {
  readonly format?: unknown
  readonly pattern?: unknown
}

/** What may stand in an address as it is (RFC 3986), but for brackets, which belong to IPv6. */
const URL_AS_IS = /^[a-z][a-z0-9+.-]*:[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]*$/i
/** In a path or query they are sent encoded; the parser of browsers leaves them. */
const NOT_IN_URL = /[[\]|^`{}\\]/g
/** Left as written, and refused: it would send the name of a secret. */
const SECRET_NAME = '{{'

/**
 * Returns the one spelling of an address in a field for addresses: without blanks and brackets around it, an
 * international domain in ASCII, a path as browsers send it. Returns any other text as it is, for its schema to judge.
 */
export function readAddress(schemas: readonly TextSchema[], text: string): string {
  if (schemas.some(({ format }) => format === 'uri')) return readUrl(text)
  if (schemas.some(({ format, pattern }) => format === 'email' || pattern === EMAIL_PATTERN))
    return readEmail(text)
  return schemas.some(({ pattern }) => pattern === EVM_ADDRESS_PATTERN) ? readWallet(text) : text
}

const withoutBrackets = (text: string): string =>
  /^<([^<>]*)>$/.exec(text.trim())?.[1] ?? text.trim()

function readUrl(text: string): string {
  const bare = withoutBrackets(text)
  if (URL_AS_IS.test(bare)) return bare
  if (!/^https?:\/\//i.test(bare) || bare.includes(SECRET_NAME) || !URL.canParse(bare)) return text
  const { href, pathname, search, hash } = new URL(bare)
  const tail = `${pathname}${search}${hash}`
  const head = href.slice(0, href.length - tail.length)
  return head + tail.replace(NOT_IN_URL, encodeURIComponent)
}

/** `mailto:` and a name before angle brackets are left out, also a final dot of the domain. */
function readEmail(text: string): string {
  const bare = (/^[^<>@]*<([^<>]*)>$/.exec(text.trim())?.[1] ?? text)
    .trim()
    .replace(/^mailto:/i, '')
  const at = bare.lastIndexOf('@')
  const named = bare.slice(at + 1).replace(/\.$/, '')
  const domain = /[^\0-\x7f]/.test(named) ? domainToASCII(named) : named
  return at < 1 || domain === '' ? text : `${bare.slice(0, at)}@${domain}`
}

const readWallet = (text: string): string => text.trim().replace(/^0X/, '0x')
