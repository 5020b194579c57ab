/** Reads the challenges of MPP from `WWW-Authenticate`. */

/** The parameters of one challenge; all of them were quoted, and each came once. */
export type ParsedPaymentChallenge = ReadonlyMap<string, string>

/** A quoted parameter, an unquoted one, or a word that begins the next scheme. */
const PART =
  /[\s,]*(?:([\w-]+)\s*=\s*"((?:[^"\\]|\\.)*)"|([\w-]+)\s*=\s*([^\s",]+)|([\w-]+)(?=\s|,|$))/y
/** What a signer reads. Anything else, as another header for the credential, is left out. */
const SIGNED_PARAMETERS = [
  'id',
  'realm',
  'method',
  'intent',
  'request',
  'expires',
  'digest',
  'opaque',
] as const

/**
 * Returns the challenges of the scheme `Payment`, apart from each other. One with a doubled or an unquoted
 * parameter is left out, since two readers may understand it differently.
 */
export function readMppChallenges(header: string): ParsedPaymentChallenge[] {
  const found: { readonly scheme: string; readonly fields: Map<string, string>; bad: boolean }[] =
    []
  const text = header.trim()
  PART.lastIndex = 0
  while (PART.lastIndex < text.length) {
    const [match, name, quoted = '', bare, , scheme] = PART.exec(text) ?? []
    // The rest cannot be read, so nothing of it is trusted.
    if (match === undefined) return []
    const last = found.at(-1)
    if (scheme !== undefined)
      found.push({ scheme: scheme.toLowerCase(), fields: new Map(), bad: false })
    else if (last !== undefined && name !== undefined && !last.fields.has(name.toLowerCase()))
      last.fields.set(name.toLowerCase(), quoted.replace(/\\(.)/g, '$1'))
    else if (last !== undefined && (name ?? bare) !== undefined) last.bad = true
  }
  return found.filter(({ scheme, bad }) => scheme === 'payment' && !bad).map(({ fields }) => fields)
}

/** Writes a challenge again, so that a signer reads what was compared with the quote, and nothing else. */
export function writeMppChallenge(challenge: ParsedPaymentChallenge): string {
  const parts = SIGNED_PARAMETERS.flatMap((name) => {
    const value = challenge.get(name)
    return value === undefined ? [] : `${name}="${value.replace(/["\\]/g, '\\$&')}"`
  })
  return `Payment ${parts.join(', ')}`
}
