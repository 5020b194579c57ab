/**
 * The one normaliser under every guard that compares or searches text: invisible characters, encodings,
 * case and look-alike letters hide nothing (decision 411). What is stored and shown stays as it was written.
 */

/** Joiners, fillers, tags, selectors, direction marks and control characters: none of them is seen. */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Cf}\u2800]|(?![\t\n\v\f\r\x85])\p{Cc}/gu
/** More than any script puts on one letter; normalizing them takes quadratic time. */
const EXCESS_MARKS = /(\p{M}{30})\p{M}+/gu
const ASCII = /^[\t\n\r\x20-\x7e]*$/

/** Letters of other scripts that look like Latin ones. */
const LOOK_ALIKES: ReadonlyMap<string, string> = new Map(
  [
    // Cyrillic
    ['авсԁеԍһіјкӏмոорԛѕтцѵѡхуԝ', 'abcdeghijklmnopqstuvwxyw'],
    ['АВСЕНІЈКМОРЅТХУԜԌԚ', 'ABCEHIJKMOPSTXYWGQ'],
    // Greek
    ['αβγεικνορτυχω', 'abyeikvoptuxw'],
    ['ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ', 'ABEZHIKMNOPTYX'],
    // Latin letters beside the alphabet
    ['ıɑɡɩʟո', 'iagiln'],
  ].flatMap(([from = '', to = '']) => Array.from(from, (one, at) => [one, to[at] ?? one] as const)),
)
const LATIN = /\p{Script=Latin}/u
const LOOK_ALIKE_SCRIPTS = '\\p{Script=Cyrillic}\\p{Script=Greek}\\p{Script=Armenian}ıɑɡɩʟ'
const LOOK_ALIKE = new RegExp(`[${LOOK_ALIKE_SCRIPTS}]`, 'u')
/** Words first, their scripts then: one pattern for both takes quadratic time for a long word. */
const WORD = new RegExp(`[\\p{L}\\p{M}\\p{N}${LOOK_ALIKE_SCRIPTS}]+`, 'gu')

/** The text without characters that nobody sees. */
export const withoutInvisibles = (text: string): string =>
  ASCII.test(text) ? text : text.replace(INVISIBLE, '')

/** One encoding of each text, without what nobody sees: NFKC, so full width is plain. Case stays. */
export function toPlainText(text: string): string {
  if (ASCII.test(text)) return text
  return withoutInvisibles(withoutInvisibles(text).replace(EXCESS_MARKS, '$1').normalize('NFKC'))
}

/** Equal for texts that differ in encoding, case or invisible characters: ß and SS, i, ı and İ. */
export const toComparableText = (text: string): string =>
  toPlainText(text)
    .toUpperCase()
    .normalize('NFKC')
    .replace(/İ|I\u0307/gu, 'I')

/**
 * Plain text in which a word of mixed scripts has Latin letters only: what a reader takes it for. Words of
 * one script stay.
 */
export const unmaskLookAlikes = (text: string): string =>
  ASCII.test(text)
    ? text
    : text.replace(WORD, (word) =>
        LOOK_ALIKE.test(word) && LATIN.test(word)
          ? Array.from(word, (one) => LOOK_ALIKES.get(one) ?? one).join('')
          : word,
      )

/** As people read it: plain, without look-alikes and without accents. For rules in English words. */
export function toReadText(text: string): string {
  if (ASCII.test(text)) return text
  const bare = toPlainText(text)
    .normalize('NFD')
    .replace(/[\u0300-\u036f]+/g, '')
    .normalize('NFC')
  return unmaskLookAlikes(bare)
}
