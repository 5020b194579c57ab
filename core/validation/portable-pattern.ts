/**
 * Regular expressions that every reader of a schema takes: JavaScript with and without its `u` flag, Python,
 * RE2 and the grammars of llama.cpp. One refused pattern makes a model's API refuse the whole request.
 */

/** Longer ones cost clients more than they tell. */
const MAX_PATTERN_CHARS = 300
/** RE2 refuses more. */
const MAX_REPEATS = 1_000

/** Classes that some dialect lacks, in the words of all. */
const SHORT_CLASSES: readonly (readonly [short: string, inside: string])[] = [
  ['\\d', '0-9'],
  ['\\w', 'A-Za-z0-9_'],
]

const LITERAL = /[A-Za-z0-9 _:,@=%&#~;'"<>!/.-]|\\[\^$.[\]()|{}*+?]/
const CLASS = /\[\^?(?!\^)(?:\\x[0-9a-fA-F]{2}|[^\\[\]\P{ASCII}\p{Cc}])+\]/u
const QUANTIFIER = /(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})?/
const TOKEN = new RegExp(
  `(?:(?<open>\\()|(?<bar>\\|)|(?<atom>${LITERAL.source}|${CLASS.source}|(?<close>\\)))${QUANTIFIER.source})`,
  'uy',
)
/** Python reads these as operations on sets. */
const SET_OPERATION = /&&|--|\|\||~~/
/** A short class as one end of a range: its dialects disagree. */
const CLASS_IN_RANGE = /\[[^\]]*(?:\\[dw]-[^\]]|-\\[dw])/

/**
 * Returns the pattern in the dialect that all clients share; null for one that it cannot say, or that is not
 * anchored at both ends.
 */
export function toPortablePattern(pattern: string): string | null {
  if (pattern.length > MAX_PATTERN_CHARS || !pattern.startsWith('^') || !/(?<!\\)\$$/.test(pattern))
    return null
  if (CLASS_IN_RANGE.test(pattern)) return null
  const plain = spellOut(pattern.slice(1, -1))
  return isPortableBody(plain) ? `^${plain}$` : null
}

/** Writes out short classes, groups that capture nothing and needless escapes. */
function spellOut(body: string): string {
  let inClass = false
  return body.replace(/\\.|\(\?:|[[\]]/gsu, (token) => {
    if (token === '[' || token === ']') inClass = token === '['
    if (token === '(?:' && !inClass) return '('
    const [, inside] = SHORT_CLASSES.find(([short]) => short === token) ?? []
    if (inside !== undefined) return inClass ? inside : `[${inside}]`
    if (inClass && /^\\[.^$(){}|*+?/]$/.test(token)) return token.slice(1)
    return token === '\\/' || (token === '\\-' && !inClass) ? token.slice(1) : token
  })
}

function isPortableBody(body: string): boolean {
  if (SET_OPERATION.test(body)) return false
  let depth = 0
  TOKEN.lastIndex = 0
  while (TOKEN.lastIndex < body.length) {
    const before = TOKEN.lastIndex
    const { open, close, bar } = TOKEN.exec(body)?.groups ?? {}
    if (TOKEN.lastIndex <= before) return false
    if (open !== undefined) depth += 1
    if (close !== undefined) depth -= 1
    // An alternative outside of a group would be anchored at one end only.
    if (depth < 0 || (bar !== undefined && depth === 0)) return false
  }
  const repeats = [...body.matchAll(/\{(\d+)(?:,(\d*))?\}/g)].flatMap(([, one, other]) => [
    Number(one),
    Number(other ?? 0),
  ])
  return depth === 0 && !/\(\)|\(\|/.test(body) && repeats.every((times) => times <= MAX_REPEATS)
}
