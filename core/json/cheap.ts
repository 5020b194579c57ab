import { LIMITS } from '../limits.ts'

/**
 * Why a value has more than `LIMITS.resultValues` values, or more than `LIMITS.resultNames` names of fields; null if
 * it has not. Reading its text again would hold the station's thread for long (decision 481). Any depth.
 */
export function findCostlyJson(value: unknown): string | null {
  const names = new Set<string>()
  const open: unknown[] = [value]
  let values = 0
  while (open.length > 0) {
    const one = open.pop()
    values += 1
    if (values > LIMITS.resultValues) return `more than ${LIMITS.resultValues} values`
    if (typeof one !== 'object' || one === null) continue
    if (!Array.isArray(one)) for (const name of Object.keys(one)) names.add(name)
    if (names.size > LIMITS.resultNames) return `more than ${LIMITS.resultNames} names of fields`
    for (const inner of Object.values(one)) open.push(inner)
  }
  return null
}
