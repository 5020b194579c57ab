/**
 * Edit distance of two words: omission, insertion, substitution, transposition. Stops above `most`
 * and returns `most + 1`.
 */
export function editDistance(a: string, b: string, max: number): number {
  if (Math.abs(a.length - b.length) > max) return max + 1
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let row = 1; row <= a.length; row += 1) {
    const here = [row]
    for (let at = 1; at <= b.length; at += 1) {
      const same = a[row - 1] === b[at - 1]
      const swapped = a[row - 1] === b[at - 2] && a[row - 2] === b[at - 1]
      here[at] = Math.min(
        (above[at] ?? 0) + 1,
        (here[at - 1] ?? 0) + 1,
        (above[at - 1] ?? 0) + (same ? 0 : 1),
        swapped && row > 1 && at > 1 ? (before[at - 2] ?? 0) + 1 : Infinity,
      )
    }
    if (Math.min(...here) > max) return max + 1
    before = above
    above = here
  }
  return Math.min(above[b.length] ?? 0, max + 1)
}

/** Accepted edits for a word: with more, a short word is a different one. */
export const maxEditDistanceFor = (word: string): number => (word.length < 8 ? 1 : 2)
