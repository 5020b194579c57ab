/** Anything shorter is found in text by chance. */
const SHORTEST_SECRET = 8
const MARK = '[secret]'
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/

/** Takes secrets out of text; `holds` says whether there is one. */
export interface Redaction {
  holds(text: string): boolean
  text(text: string): string
  bytes(body: Buffer): Buffer
}

/**
 * Finds secrets in an answer however a server may have written them down: plain, percent-encoded, escaped
 * as in JSON or HTML, hexadecimal, base64 in each of its three alignments and both alphabets, UTF-16 and
 * backwards, and what a secret stands for where it is base64 itself. Whoever was sent a secret can always
 * tell it in a form of its own: only hosts that its owner has listed are sent one.
 */
export function redaction(secrets: Iterable<string>): Redaction {
  const needles = [...secrets].filter(({ length }) => length >= SHORTEST_SECRET).flatMap(meanings)
  const pattern = needles.length === 0 ? null : new RegExp(needles.flatMap(forms).join('|'), 'g')
  const clean = (text: string) => (pattern === null ? text : text.replace(pattern, MARK))
  return {
    holds: (text) => clean(text) !== text,
    text: clean,
    bytes(body) {
      if (pattern === null) return body
      const text = body.toString('latin1')
      const left = clean(text)
      return left === text ? body : Buffer.from(left, 'latin1')
    },
  }
}

/** The bytes of a secret, as UTF-8 and as a header carries them, and those it is an encoding of. */
function meanings(secret: string): Buffer[] {
  const [utf8, latin1] = [Buffer.from(secret, 'utf8'), Buffer.from(secret, 'latin1')]
  const decoded = BASE64.test(secret) ? Buffer.from(secret, 'base64') : Buffer.alloc(0)
  return [
    utf8,
    ...(latin1.equals(utf8) ? [] : [latin1]),
    ...(decoded.length >= SHORTEST_SECRET ? [decoded] : []),
  ]
}

function forms(bytes: Buffer): string[] {
  const characters = bytes.toString('latin1')
  return [
    spelt(characters),
    spelt(Array.from(characters).reverse().join('')),
    hexadecimal(bytes),
    ...[0, 1, 2].map((before) => inBase64(bytes, before)),
  ]
}

/** UTF-16 puts a zero byte between characters. */
const spelt = (characters: string): string => Array.from(characters).map(anySpelling).join('\\0?')

/** One character: itself, escaped, percent-encoded once or more, or a character reference. */
function anySpelling(character: string): string {
  const code = character.charCodeAt(0)
  const hex = caseless(code.toString(16).padStart(2, '0'))
  const plain = /[A-Za-z0-9]/.test(character)
    ? character
    : `\\\\?\\x${code.toString(16).padStart(2, '0')}`
  return `(?:${plain}|%(?:25)*${hex}|\\\\u00${hex}|\\\\x${hex}|&#(?:0*${code}|[xX]0*${hex});)`
}

const hexadecimal = (bytes: Buffer): string =>
  [...bytes]
    .map((byte) => caseless(byte.toString(16).padStart(2, '0')))
    .join('[\\s:,-]?(?:\\\\x|0x)?')

const caseless = (hex: string): string =>
  Array.from(hex)
    .map((digit) => (/[a-f]/.test(digit) ? `[${digit}${digit.toUpperCase()}]` : digit))
    .join('')

/**
 * Inside a longer text base64 begins at any of three places. Its first and last character may belong to
 * the neighbours in part, so one on each side goes with what is certain.
 */
function inBase64(bytes: Buffer, before: number): string {
  const whole = Buffer.concat([Buffer.alloc(before), bytes])
    .toString('base64')
    .replace(/=+$/, '')
  const sure = whole.slice(before === 0 ? 0 : before + 1)
  const ends = (before + bytes.length) % 3 === 0
  const inner = Array.from(ends ? sure : sure.slice(0, -1), inAlphabet).join('\\s?')
  const neighbour = '[A-Za-z0-9+/_-]?'
  return `${before === 0 ? '' : neighbour}${inner}${ends ? '' : neighbour}`
}

/** `+` and `/` are `-` and `_` in addresses, and may be escaped. */
function inAlphabet(character: string): string {
  if (character === '+') return `(?:-|${anySpelling('+')})`
  if (character === '/') return `(?:_|${anySpelling('/')})`
  return character
}
