import { windows1252Character } from './windows-1252.ts'

/** Decodes HTML character references. */

/** Entity names of Latin-1 from code 160 on, in order. */
const LATIN_1_ENTITIES = `nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2
  sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde
  Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc
  Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring
  aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml
  divide oslash ugrave uacute ucirc uuml yacute thorn yuml`
const FIRST_LATIN_1_CODE = 160

/** Other common entities, and those that can obscure a link or a text. */
const OTHER_ENTITIES = `amp:26 AMP:26 lt:3c LT:3c gt:3e GT:3e quot:22 QUOT:22 apos:27 Tab:9 NewLine:a excl:21 num:23
  dollar:24 percnt:25 lpar:28 rpar:29 ast:2a plus:2b comma:2c period:2e sol:2f colon:3a semi:3b equals:3d
  quest:3f commat:40 lsqb:5b lbrack:5b bsol:5c rsqb:5d rbrack:5d Hat:5e lowbar:5f grave:60 lcub:7b lbrace:7b
  verbar:7c vert:7c rcub:7d rbrace:7d NonBreakingSpace:a0 OElig:152 oelig:153 Scaron:160 scaron:161 Yuml:178
  fnof:192 circ:2c6 tilde:2dc ensp:2002 emsp:2003 numsp:2007 puncsp:2008 thinsp:2009 hairsp:200a
  ZeroWidthSpace:200b zwnj:200c zwj:200d lrm:200e rlm:200f hyphen:2010 dash:2010 ndash:2013 mdash:2014
  lsquo:2018 rsquo:2019 sbquo:201a ldquo:201c rdquo:201d bdquo:201e dagger:2020 Dagger:2021 bull:2022
  hellip:2026 mldr:2026 permil:2030 prime:2032 Prime:2033 lsaquo:2039 rsaquo:203a oline:203e frasl:2044
  NoBreak:2060 ApplyFunction:2061 InvisibleTimes:2062 InvisibleComma:2063 euro:20ac numero:2116 trade:2122
  larr:2190 uarr:2191 rarr:2192 darr:2193 harr:2194 rArr:21d2 hArr:21d4 minus:2212 infin:221e asymp:2248
  ne:2260 le:2264 ge:2265 loz:25ca star:2606 starf:2605 phone:260e spades:2660 clubs:2663 hearts:2665
  diams:2666 check:2713 cross:2717 Alpha:391 Beta:392 Gamma:393 Delta:394 Omega:3a9 alpha:3b1 beta:3b2
  gamma:3b3 delta:3b4 epsilon:3b5 lambda:3bb mu:3bc pi:3c0 sigma:3c3 omega:3c9`

const words = (text: string): string[] => text.split(/\s+/)
const latin = words(LATIN_1_ENTITIES).map(
  (name, at) => [name, String.fromCodePoint(FIRST_LATIN_1_CODE + at)] as const,
)
const others = words(OTHER_ENTITIES).map((entry) => {
  const [name = '', code = ''] = entry.split(':')
  return [name, String.fromCodePoint(Number.parseInt(code, 16))] as const
})
const NAMED: ReadonlyMap<string, string> = new Map([...latin, ...others])
/** Entities that are valid without a semicolon. */
const ENTITIES_WITHOUT_SEMICOLON = new Set([
  ...latin.map(([name]) => name),
  ...words('amp AMP lt LT gt GT quot QUOT'),
])

const REFERENCE = /&(?:#(x[0-9a-f]{1,8}|\d{1,8})|([a-z][a-z0-9]{1,31}));?/gi
const LAST_CODE_POINT = 0x10ffff
const REPLACEMENT = '\ufffd'

/** Decodes character references as browsers do: all numeric ones, and the names above. */
export function decodeHtmlEntities(text: string): string {
  return text.includes('&') ? text.replace(REFERENCE, decodeReference) : text
}

function decodeReference(
  written: string,
  number: string | undefined,
  name: string | undefined,
): string {
  if (number !== undefined) return decodeNumericReference(number)
  if (name === undefined) return written
  if (written.endsWith(';') || ENTITIES_WITHOUT_SEMICOLON.has(name))
    return NAMED.get(name) ?? written
  return written
}

function decodeNumericReference(number: string): string {
  const hex = /^x/i.test(number)
  const code = Number.parseInt(hex ? number.slice(1) : number, hex ? 16 : 10)
  // Pages mean Windows-1252 where Latin-1 has control characters.
  if (code >= 0x80 && code < 0xa0) return windows1252Character(code)
  const surrogate = code >= 0xd800 && code < 0xe000
  if (code === 0 || surrogate || code > LAST_CODE_POINT) return REPLACEMENT
  return String.fromCodePoint(code)
}
