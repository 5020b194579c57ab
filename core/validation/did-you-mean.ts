import { editDistance } from './edit-distance.ts'

const MAX_DISTANCE = 2
const MAX_WORD_CHARS = 64

/**
 * The known word nearest to one that is not known, at most two typing errors away; null where none is
 * near. Words of one or two letters are near to everything, and so to nothing.
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
