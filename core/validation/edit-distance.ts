/**
 * Edit distance of two words: omission, insertion, substitution, transposition. Stops above `most`
 * and returns `most + 1`.
 */
export function editDistance(one: string, other: string, most: number): number {
  if (Math.abs(one.length - other.length) > most) return most + 1
  let before: number[] = []
  let above = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let row = 1; row <= one.length; row += 1) {
    const here = [row]
    for (let at = 1; at <= other.length; at += 1) {
      const same = one[row - 1] === other[at - 1]
      const swapped = one[row - 1] === other[at - 2] && one[row - 2] === other[at - 1]
      here[at] = Math.min(
        (above[at] ?? 0) + 1,
        (here[at - 1] ?? 0) + 1,
        (above[at - 1] ?? 0) + (same ? 0 : 1),
        swapped && row > 1 && at > 1 ? (before[at - 2] ?? 0) + 1 : Infinity,
      )
    }
    if (Math.min(...here) > most) return most + 1
    before = above
    above = here
  }
  return Math.min(above[other.length] ?? 0, most + 1)
}

/** Accepted edits for a word: with more, a short word is a different one. */
export const maxEditDistanceFor = (word: string): number => (word.length < 8 ? 1 : 2)
