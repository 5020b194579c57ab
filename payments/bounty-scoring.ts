import { toComparableText } from '../core/comparable-text.ts'

/** The score of a content against a bounty; deterministic for the same text on every machine. */
export interface BountyContentScore {
  /** Required keywords that are missing, spelled as in the bounty. */
  readonly missing: readonly string[]
  /** 0 to 100: substance and variety. */
  readonly quality: number
  /** One point for each distinct word, up to 80. */
  readonly substance: number
  /** 20 points if at least half of the words are distinct, proportionally fewer below that. */
  readonly variety: number
}

const MAX_SUBSTANCE_POINTS = 80
const MAX_VARIETY_POINTS = 20
/**
 * A word is a run of letters, marks and digits. Scripts without spaces have no such runs: there
 * each character is a word, and a keyword of several characters is matched as their sequence.
 */
const WORD =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]\p{M}*|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}])[\p{L}\p{N}]\p{M}*)+/gu

/** The words of a text in order, without differences of case or Unicode encoding. */
export const toNormalizedWords = (text: string): string[] =>
  toComparableText(text).match(WORD) ?? []

/** Matches each keyword against the words and counts distinct words. */
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
  // Integers only, so rounding does not depend on the machine.
  const half = Math.min(2 * different, words.length)
  const variety = words.length === 0 ? 0 : Math.floor((MAX_VARIETY_POINTS * half) / words.length)
  return { missing, quality: substance + variety, substance, variety }
}

/** Joins words with single spaces, so that only whole words match. */
const joinWords = (words: readonly string[]): string => ` ${words.join(' ')} `
