import { toExactJson } from './exact.ts'

/**
 * JSON text of a value, with bigints as numerals. Throws `RangeError` for a number that JSON cannot hold (`NaN`, `1e400`) and for an invalid
 * date: `JSON.stringify` writes null for them, which means "none".
 */
export function toFiniteJson(value: unknown): string {
  let hasBigint = false
  const text = JSON.stringify(
    value,
    function (this: Record<string, unknown>, name, written: unknown) {
      if (typeof written === 'bigint') {
        hasBigint = true
        return null
      }
      const number = Object(written) instanceof Number ? Number(written) : 0
      const date = this[name] instanceof Date ? Number(this[name]) : 0
      if (Number.isFinite(number) && Number.isFinite(date)) return written
      throw new RangeError(`${name === '' ? 'the body' : name} is no number that JSON can hold`)
    },
  )
  return hasBigint ? toExactJson(value) : text
}
