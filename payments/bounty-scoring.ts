/** What a content is worth to a bounty: the same figures for the same text on every machine. */
export interface BountyContentScore {
  /** The required keywords it lacks, as the bounty spells them. */
  readonly missing: readonly string[]
  /** 0 to 100: substance and variety. */
  readonly quality: number
  /** One point for each different word, up to 80. */
  readonly substance: number
  /** 20 points where at least half of the words are different ones, in proportion below. */
  readonly variety: number
}

const MAX_SUBSTANCE_POINTS = 80
const MAX_VARIETY_POINTS = 20
/**
 * A word is a run of letters, marks and digits. Scripts that are written without spaces have no such
 * runs: there each character counts as a word, and a keyword of several is found as their sequence.
 */
const WORD =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]\p{M}*|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}])[\p{L}\p{N}]\p{M}*)+/gu
/** Soft hyphens, joiners and their like: they are not seen, so they split no word. */
const IGNORABLE_CODE_POINTS = /\p{Default_Ignorable_Code_Point}/gu
/** More marks than any script sets on one letter: to put them in order takes the square of their number. */
const EXCESS_COMBINING_MARKS = /(\p{M}{30})\p{M}+/gu

/** The words of a text in order, with differences of case and of encoding taken out. */
export function toNormalizedWords(text: string): string[] {
  // Upper case folds what lower case keeps apart: ß and SS, the two forms of a small sigma.
  const seen = text.replace(IGNORABLE_CODE_POINTS, '').replace(EXCESS_COMBINING_MARKS, '$1')
  const folded = seen.normalize('NFKC').toUpperCase().normalize('NFKC')
  return folded.match(WORD) ?? []
}

/** Looks for each keyword among the words, one after the other, and counts different words. */
export function scoreBountyContent(
  content: string,
  keywords: readonly string[],
): BountyContentScore {
  const words = toNormalizedWords(content)
  const text = joinWords(words)
  const missing = keywords.filter(
    (keyword) => !text.includes(joinWords(toNormalizedWords(keyword))),
  )
  const different = new Set(words).size
  const substance = Math.min(different, MAX_SUBSTANCE_POINTS)
  // Whole numbers only, so that no rounding depends on the machine.
  const half = Math.min(2 * different, words.length)
  const variety = words.length === 0 ? 0 : Math.floor((MAX_VARIETY_POINTS * half) / words.length)
  return { missing, quality: substance + variety, substance, variety }
}

/** Words between single spaces, so that only whole words are found in it. */
const joinWords = (words: readonly string[]): string => ` ${words.join(' ')} `
