import {
  toComparableText,
  toLetterSkeleton,
  toPlainText,
  toReadText,
  unmaskLookAlikes,
} from '../../core/comparable-text.ts'

/** MinHash of texts, to find near copies. */

const BANDS = 8
const ROWS = 4

/**
 * The words of a text for comparison: letters and digits, in lower case. What stored bands were made of stays
 * equal for texts without disguise.
 */
export const toWordSet = (text: string): ReadonlySet<string> =>
  new Set(
    toComparableText(unmaskLookAlikes(toPlainText(text)))
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? [],
  )

/** What a text is compared by: its words, the same as read in disguise, and its runs of letters. */
export interface TextForms {
  readonly words: readonly ReadonlySet<string>[]
  readonly letters: string
  /** All digits in order. */
  readonly digits: string
  readonly runs: ReadonlySet<string>
}

/** Signs between letters, without blanks. */
const INSIDE_WORDS = /(?<=\p{L})[^\p{L}\p{N}\s]+(?=\p{L})/gu
const RUN_LETTERS = 8

/**
 * The forms of a text: the words as all stored bands have them, the words without marks and without signs in
 * them, and the letters alone, from which no separator hides a copy (decision 496).
 */
export function toTextForms(text: string): TextForms {
  const read = toReadText(text)
  const letters = toLetterSkeleton(text)
  const count = Math.max(1, letters.length - RUN_LETTERS + 1)
  return {
    words: [toWordSet(text), toWordSet(read), toWordSet(read.replace(INSIDE_WORDS, ''))],
    letters,
    digits: read.replace(/\P{N}+/gu, ''),
    runs: new Set(Array.from({ length: count }, (_, at) => letters.slice(at, at + RUN_LETTERS))),
  }
}

/** The bands of all forms of a text: those of the plain words are among them. */
export const toFormBands = ({ words, runs }: TextForms): number[] => [
  ...new Set([...words, runs].flatMap(minHashBands)),
]

/** The share of common words among all words of both texts. */
export function jaccardSimilarity(one: ReadonlySet<string>, other: ReadonlySet<string>): number {
  const common = [...one].filter((word) => other.has(word)).length
  const all = one.size + other.size - common
  return all === 0 ? 1 : common / all
}

/**
 * The MinHash of words in eight bands of four: texts with nine tenths of their words in common
 * share a band in 9,998 of 10,000 cases, those with a third of them in one of ten.
 */
export function minHashBands(words: ReadonlySet<string>): number[] {
  const hashes = [...words].map(fnv1a)
  const least = Array.from({ length: BANDS * ROWS }, (_, seed) =>
    hashes.reduce((min, hash) => Math.min(min, mixed(hash, seed)), 0xffffffff),
  )
  return Array.from(
    { length: BANDS },
    (_, band) =>
      least
        .slice(band * ROWS, (band + 1) * ROWS)
        .reduce((all, one) => mixed(all ^ one, band), band) | 0,
  )
}

/** FNV-1a of 32 bits. */
function fnv1a(word: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(word)) hash = Math.imul(hash ^ byte, 0x01000193)
  return hash >>> 0
}

/** The finaliser of MurmurHash3: one hash per seed. */
function mixed(value: number, seed: number): number {
  let hash = value ^ Math.imul(seed + 1, 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
