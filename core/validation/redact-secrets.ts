import { toReadText } from '../comparable-text.ts'

/** Replaces a secret in output. */
export const REDACTED = '[redacted]'

/** Last words of names that hold credentials: `clientSecret`, `github_token`, `DB_PASSWORD`. */
const SECRET_WORDS = [
  ...['authorization', 'cookie', 'secret', 'password', 'passwd', 'pwd', 'passphrase', 'passcode'],
  ...['credential', 'token', 'mnemonic', 'jwt', 'apikey', 'seedphrase', 'privatekey', 'sessionid'],
]
/** Two words that are a credential only together. */
const SECRET_PAIRS = [
  ...['api', 'access', 'private', 'secret', 'signing', 'encryption', 'auth'].map(
    (of) => `${of} key`,
  ),
  ...['seed', 'recovery', 'secret', 'mnemonic', 'pass'].map((of) => `${of} phrase`),
  ...['session id', 'pass word', 'pass code', 'auth code'],
]
const SECRET_NAME = new RegExp(
  `(^| )(${[...SECRET_WORDS, ...SECRET_PAIRS].join('|')})s?( (value|header|hash|base64|hex|\\d+))?$`,
)
/** A token of a chain is public, and tokens are counted. */
const PLAIN_NAME =
  /^(tokens|(max|min|total|input|output|prompt|completion|reply|target|from|to|sell|buy|base|quote|pay|pool|reward|in|out)( \w+)? tokens?|(token|tokens) (in|out))$/

/** Whether a field, a parameter or a header of this name holds a credential; names are split into words (decision 497). */
function isSecretName(name: string): boolean {
  const words = toReadText(name)
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()
    .toLowerCase()
  return SECRET_NAME.test(words) && !PLAIN_NAME.test(words)
}

const USERINFO = /\b([a-z][a-z0-9+.-]{0,30}:\/{2})[^\s/?#@]*@/gi
const QUERY_VALUE = /(?<=[?&#;])([^\s=&#;?]+)=([^\s&#;]+)/g

/** A text without the credentials of addresses in it: userinfo, and values of parameters with such names. */
const redactAddresses = (text: string): string =>
  text.includes('://') || text.includes('?')
    ? text
        .replace(USERINFO, (whole, scheme: string) =>
          isReference(whole.slice(scheme.length, -1)) ? whole : `${scheme}${REDACTED}@`,
        )
        .replace(QUERY_VALUE, (whole, name: string, value: string) =>
          isSecretName(decodeName(name)) && !isReference(value) ? `${name}=${REDACTED}` : whole,
        )
    : text

const isReference = (value: string): boolean =>
  value.split(':').every((part) => KEYRING_REFERENCE_PATTERN.test(part))

function decodeName(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

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
 * `access_token`, in camel case too, userinfo and such parameters of addresses in any text. Keyring references stay.
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
    if (typeof node === 'string') {
      const plain = redactAddresses(node)
      if (plain !== node) found = true
      return plain
    }
    if (typeof node !== 'object' || node === null) return node
    return Object.fromEntries(
      Object.entries(node).map(([name, inner]) => {
        const isSecret = inHeaders
          ? !PLAIN_HEADERS.has(toReadText(name).toLowerCase())
          : isSecretName(name)
        const isLeaf = typeof inner !== 'object' || inner === null
        if (isSecret) return [name, isLeaf || inHeaders ? hide(inner) : walk(inner, true)]
        return [name, walk(inner, /^headers$/i.test(toReadText(name)))]
      }),
    )
  }
  return { shown: walk(value, false), found }
}
