import { LOOK_ALIKES } from './look-alikes.ts'

/**
 * The one normaliser under every guard that compares or searches text: invisible characters, encodings,
 * case and look-alike letters hide nothing (decision 411). What is stored and shown stays as it was written.
 */

/** Joiners, fillers, tags, selectors, direction marks and control characters: none of them is seen. */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Cf}\u2800]|(?![\t\n\v\f\r\x85])\p{Cc}/gu
/** More than any script puts on one letter; normalizing them takes quadratic time. */
const EXCESS_MARKS = /(\p{M}{30})\p{M}+/gu
const ASCII = /^[\t\n\r\x20-\x7e]*$/

/** What takes no place of its own in Latin words, or shows as a box: marks, private and unknown characters. */
const BESIDE_LETTERS = /[\p{M}\p{Co}\p{Cn}\p{Cs}\ufffc\ufffd]+/gu

const LATIN = /\p{Script=Latin}/u
const twins = [...LOOK_ALIKES.keys()]
/** Nobody writes whole words in these today: signs, and scripts beyond the Basic Multilingual Plane. */
const ODD_TWIN = new RegExp(`[${twins.filter((twin) => twin.length === 2).join('')}]`, 'gu')
const TWIN = new RegExp(`[${twins.join('')}]`, 'gu')
const ANY_TWIN = new RegExp(TWIN, 'u')
/** Letters of other scripts, and those Latin ones that no language writes beside the plain letter. */
const FOREIGN_TWIN = new RegExp(
  `[${twins.filter((twin) => !LATIN.test(twin)).join('')}ıɑɡɩʟ]`,
  'gu',
)
const ANY_FOREIGN_TWIN = new RegExp(FOREIGN_TWIN, 'u')
/** Words first, their scripts then: one pattern for both takes quadratic time for a long word. */
const WORD = /[\p{L}\p{M}\p{N}]+/gu
const toLatin = (twin: string): string => LOOK_ALIKES.get(twin) ?? twin

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
        ANY_FOREIGN_TWIN.test(word) && LATIN.test(word)
          ? word.replace(FOREIGN_TWIN, toLatin)
          : word,
      )

/**
 * As people read it: plain, without marks and with Latin letters for look-alikes in words of mixed scripts. For
 * rules in English words, never for search: marks carry meaning in many scripts.
 */
export function toReadText(text: string): string {
  if (ASCII.test(text)) return text
  return toPlainText(text)
    .normalize('NFD')
    .replace(BESIDE_LETTERS, '')
    .normalize('NFC')
    .replace(ODD_TWIN, toLatin)
    .replace(WORD, (word) =>
      ANY_TWIN.test(word) && LATIN.test(word) ? word.replace(TWIN, toLatin) : word,
    )
}

/** An address or a hash is longer. */
const MAX_SPELT_CHARS = 24
const DIGIT_TWINS: Readonly<Record<string, string>> = {
  ...{ '0': 'o', '1': 'i', '3': 'e', '4': 'a', '5': 's', '7': 't', l: 'i', L: 'I' },
}
const toLetter = (one: string): string => DIGIT_TWINS[one] ?? one

/**
 * Read text, as long as it is, in which whole words of another script are Latin too, digits in words are the
 * letters that they stand for, and l is i. Fold both sides of a comparison.
 */
export const foldLookAlikes = (read: string): string =>
  (ASCII.test(read) ? read : read.replace(TWIN, toLatin)).replace(/[a-z0-9]{3,}/gi, (word) => {
    const digits = word.replace(/\D+/g, '').length
    const spelt = 2 * digits < word.length && word.length <= MAX_SPELT_CHARS
    return word.replace(spelt ? /[l0-9]/gi : /l/gi, toLetter)
  })

/** The letters and digits of a text alone, with one form of all that look alike: no separator hides a word. */
export const toLetterSkeleton = (text: string): string =>
  toReadText(text)
    .replace(TWIN, toLatin)
    .replace(/[l0-9]/gi, toLetter)
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '')
