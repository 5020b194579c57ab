import { editDistance } from './edit-distance.ts'

/** Suggests known words for misspelled ones. */

const MAX_DISTANCE = 2
const MAX_WORD_CHARS = 64
/** The known words may be a stranger's, thousands of them. */
const MAX_WORDS = 1_000

/**
 * Returns the closest known word within two edits, or null. The number of edits is limited to half
 * the word's length: one-letter words match nothing else.
 */
export function findClosestWord(word: string, known: Iterable<string>): string | null {
  if (word.length > MAX_WORD_CHARS) return null
  const wanted = word.toLowerCase()
  let [best, bestDistance]: [string | null, number] = [null, MAX_DISTANCE + 1]
  let compared = 0
  for (const one of known) {
    if ((compared += 1) > MAX_WORDS) break
    const limit = Math.min(bestDistance - 1, Math.floor(Math.min(wanted.length, one.length) / 2))
    const slips = editDistance(wanted, one.toLowerCase(), limit)
    if (slips <= limit) [best, bestDistance] = [one, slips]
  }
  return best
}
