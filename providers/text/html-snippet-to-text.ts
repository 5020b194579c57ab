import { withoutInvisibles } from '../../core/comparable-text.ts'

/** Converts snippets of HTML to text. */

const NAMED: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: ' ',
  hellip: '…',
  ndash: '–',
  mdash: '—',
  lsquo: '‘',
  rsquo: '’',
  ldquo: '“',
  rdquo: '”',
  laquo: '«',
  raquo: '»',
  bull: '•',
  middot: '·',
  deg: '°',
  times: '×',
  minus: '−',
  copy: '©',
  reg: '®',
  trade: '™',
  euro: '€',
  pound: '£',
  auml: 'ä',
  ouml: 'ö',
  uuml: 'ü',
  szlig: 'ß',
  agrave: 'à',
  ccedil: 'ç',
  eacute: 'é',
  egrave: 'è',
  ntilde: 'ñ',
}
const LAST_CODE_POINT = 0x10ffff

/**
 * Converts HTML to one line of text without tags, cut at `maxChars`; blocks become spaces, entities are decoded.
 */
export function htmlSnippetToText(html: string, maxChars: number): string {
  const bare = html
    .slice(0, 20 * maxChars)
    .replace(/<\/?(?:p|br|div|li|h[1-6]|blockquote|pre)\b[^>]*>/gi, ' ')
    .replace(/<[^>]*>/g, '')
  return toTruncatedLine(decodeCommonEntities(bare), maxChars)
}

/** Decodes numeric and common named entities. */
export const decodeCommonEntities = (text: string): string =>
  text.replace(/&(#x?[0-9a-f]{1,6}|[a-z]{2,8});/gi, decodeCommonEntity)

/** Returns one line without invisible characters, cut at `maxChars`. */
export function toTruncatedLine(text: string, maxChars: number): string {
  const whole = withoutInvisibles(text.replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ')).trim()
  return whole.length <= maxChars ? whole : `${whole.slice(0, maxChars - 1).trimEnd()}…`
}

function decodeCommonEntity(written: string, name: string): string {
  if (!name.startsWith('#')) return NAMED[name] ?? written
  const hex = name[1] === 'x' || name[1] === 'X'
  const code = Number.parseInt(name.slice(hex ? 2 : 1), hex ? 16 : 10)
  return Number.isNaN(code) || code > LAST_CODE_POINT ? written : String.fromCodePoint(code)
}
