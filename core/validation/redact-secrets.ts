import { toReadText } from '../comparable-text.ts'

/** Replaces a secret in output. */
export const REDACTED = '[redacted]'

/** Field names that always hold credentials. */
const SECRET_FIELD_NAME =
  /(^|[-_])(authorization|cookies?|secret|password|passwd|credentials?)$|(^|[-_])(access|auth|api|bearer|refresh|session)[-_]?token$|(^|[-_])(api|access|private|secret)[-_]?key$/i

/** Headers that never hold a credential. All others may. */
const PLAIN_HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'accept-charset',
  'accept-encoding',
  'accept-language',
  'cache-control',
  'content-language',
  'content-type',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'origin',
  'pragma',
  'range',
  'referer',
  'user-agent',
])

/** A reference to a keyring secret, which is stored encrypted. */
const KEYRING_REFERENCE_PATTERN = /^([A-Za-z][\w-]* )?\{\{keyring\.[^{}]+\}\}$/

/**
 * Replaces credentials in JSON by `[redacted]` and returns whether there were any: headers except
 * well-known plain ones, and strings under names such as `authorization`, `cookie`, `api_key` or
 * `access_token`. Keyring references stay.
 */
export function redactSecrets(value: unknown): {
  readonly shown: unknown
  readonly found: boolean
} {
  let found = false
  const hide = (text: unknown): unknown => {
    if (typeof text === 'string' && (text === '' || KEYRING_REFERENCE_PATTERN.test(text)))
      return text
    if (text === null || typeof text === 'boolean') return text
    found = true
    return REDACTED
  }
  const walk = (node: unknown, inHeaders: boolean): unknown => {
    if (Array.isArray(node)) return node.map((item) => walk(item, inHeaders))
    if (typeof node !== 'object' || node === null) return node
    return Object.fromEntries(
      Object.entries(node).map(([name, inner]) => {
        const isSecret = inHeaders
          ? !PLAIN_HEADERS.has(toReadText(name).toLowerCase())
          : SECRET_FIELD_NAME.test(toReadText(name))
        const isLeaf = typeof inner !== 'object' || inner === null
        if (isSecret) return [name, isLeaf || inHeaders ? hide(inner) : walk(inner, true)]
        return [name, walk(inner, /^headers$/i.test(toReadText(name)))]
      }),
    )
  }
  return { shown: walk(value, false), found }
}
