import { LIMITS } from '../limits.ts'

/**
 * Throws `RangeError` for a value of more than `LIMITS.resultValues` values, or with more than `LIMITS.resultNames`
 * names of fields: reading its text again would hold the station's thread for long (decision 481). The text is
 * bounded otherwise; any depth.
 */
export function assertJsonCheap(value: unknown): void {
  const names = new Set<string>()
  const open: unknown[] = [value]
  let values = 0
  for (let one = open.pop(); one !== undefined; one = open.pop()) {
    values += 1
    if (values > LIMITS.resultValues)
      throw new RangeError(`more than ${LIMITS.resultValues} values; ask for text`)
    if (typeof one !== 'object' || one === null) continue
    if (!Array.isArray(one)) for (const name of Object.keys(one)) names.add(name)
    if (names.size > LIMITS.resultNames)
      throw new RangeError(`more than ${LIMITS.resultNames} names of fields; ask for text`)
    for (const inner of Object.values(one)) open.push(inner)
  }
}
