import { editDistance } from './edit-distance.ts'

/** Suggests known words for misspelled ones. */

const MAX_DISTANCE = 2
const MAX_WORD_CHARS = 64

/**
 * Returns the closest known word within two edits, or null. The number of edits is limited to half
 * the word's length: one-letter words match nothing else.
 */
export function findClosestWord(word: string, known: Iterable<string>): string | null {
  if (word.length > MAX_WORD_CHARS) return null
  const asked = word.toLowerCase()
  let [best, least]: [string | null, number] = [null, MAX_DISTANCE + 1]
  for (const one of known) {
    const most = Math.min(least - 1, Math.floor(Math.min(asked.length, one.length) / 2))
    const slips = editDistance(asked, one.toLowerCase(), most)
    if (slips <= most) [best, least] = [one, slips]
  }
  return best
}
