import { GasStationError } from './station-errors.ts'

/**
 * JSON text of a body. Throws `invalid_input` for a number that JSON cannot hold (`NaN`, `Infinity`) and for an invalid
 * date, before anything is sent: `JSON.stringify` writes null for them, and null means "no limit" or "no expiry".
 */
export function toRequestJson(value: unknown): string {
  return JSON.stringify(value, function (this: Record<string, unknown>, name, written: unknown) {
    const number = Object(written) instanceof Number ? Number(written) : 0
    const date = this[name] instanceof Date ? Number(this[name]) : 0
    if (Number.isFinite(number) && Number.isFinite(date)) return written
    const what = name === '' ? 'the body' : name
    throw new GasStationError('invalid_input', `${what} is no number that JSON can hold`)
  })
}
