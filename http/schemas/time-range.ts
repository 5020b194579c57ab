import { Type } from 'typebox'
import { DAY } from '../../core/clock.ts'
import { invalidInputError } from '../../core/errors.ts'

/** Parses the `from` and `to` of lists. */

const DateOrTimeSchema = (description: string) =>
  Type.Optional(Type.String({ maxLength: 40, description }))

/** Query parameters that limit a list to a time range. */
export const TimeRangeQuery = {
  from: DateOrTimeSchema('An instant or a date (UTC) of ISO 8601, included.'),
  to: DateOrTimeSchema(
    'An instant of ISO 8601, excluded; or a date (UTC), and that whole day is included.',
  ),
}

/** A time range: `from` is inclusive, `to` exclusive; undefined is unbounded. */
export interface TimeBounds {
  readonly from: Date | undefined
  readonly to: Date | undefined
}

/**
 * Parses `from` and `to`. A date as `to` includes that whole day. Throws `invalid_input` for anything but a
 * date or an instant, and for a range that ends before it starts.
 */
export function parseTimeRange(query: { from?: string; to?: string }): TimeBounds {
  const from = parseDateOrTime(query.from, '/from')
  const named = parseDateOrTime(query.to, '/to')
  const isDay = CALENDAR_DATE.test(query.to ?? '')
  const to = named !== undefined && isDay ? endOfDay(named) : named
  if (from !== undefined && to !== undefined && (isDay ? from >= to : from > to))
    throw invalidInputError('/to', 'must not be earlier than from')
  return { from, to }
}

/** The last instant that JavaScript and PostgreSQL write alike. */
const MAX_TIME_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
const endOfDay = (day: Date): Date => new Date(Math.min(+day + DAY, MAX_TIME_MS))

const CALENDAR_DATE = /^\d{4}-\d{2}-\d{2}$/
const DATE_OR_TIME_PATTERN =
  /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$/

function parseDateOrTime(text: string | undefined, pointer: string): Date | undefined {
  if (text === undefined) return undefined
  // Without a zone the time would be read in this machine's zone.
  const zoned = /T.*(Z|[+-]\d{2}:\d{2})$/.test(text) || !text.includes('T') ? text : `${text}Z`
  const at = new Date(zoned)
  // PostgreSQL has no year 0.
  const isSpelt = at.getUTCFullYear() > 0 && +at <= MAX_TIME_MS
  if (DATE_OR_TIME_PATTERN.test(text) && isCalendarDate(text) && isSpelt) return at
  throw invalidInputError(pointer, 'must be a date or a time of ISO 8601')
}

/** Date parsing accepts 30 February as 2 March. */
function isCalendarDate(text: string): boolean {
  const day = text.slice(0, 10)
  const at = new Date(`${day}T00:00:00Z`)
  return !Number.isNaN(+at) && at.toISOString().startsWith(day)
}
