const MOST_STEPS = 2
const LONGEST = 64

/**
 * The known word nearest to one that is not known, at most two typing errors away; null where none is
 * near. Words of one or two letters are near to everything, and so to nothing.
 */
export function nearest(word: string, known: Iterable<string>): string | null {
  if (word.length > LONGEST) return null
  const asked = word.toLowerCase()
  let [best, least]: [string | null, number] = [null, MOST_STEPS + 1]
  for (const one of known) {
    const most = Math.min(least - 1, Math.floor(Math.min(asked.length, one.length) / 2))
    if (Math.abs(one.length - asked.length) > most) continue
    const steps = stepsBetween(asked, one.toLowerCase())
    if (steps <= most) [best, least] = [one, steps]
  }
  return best
}

/** Letters that have to be added, left out or replaced to make one word of the other. */
function stepsBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (let i = 1; i <= from.length; i++) {
    const above = row
    row = [i]
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1] ? 0 : 1
      row.push(Math.min((above[j - 1] ?? 0) + same, (above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1))
    }
  }
  return row[to.length] ?? 0
}
