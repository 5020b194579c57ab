import {
  exactFinding,
  type FactClaimCheckFunction,
  type FactCheckFinding,
} from './fact-claim-normalizer-and-finding-types.ts'

/** Checks claims about dates. */

const SOURCE = 'calendar'
const DAY = 86_400_000
const MONTHS = [
  'january',
  'february',
  'march',
  'april',
  'may',
  'june',
  'july',
  'august',
  'september',
  'october',
  'november',
  'december',
]
const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday']
const NAMED = MONTHS.join('|')
/** Matches a date as people write it, in UTC. */
export const DATE_PATTERN = String.raw`(?:\d{4}-\d{2}-\d{2}|\d{1,2}(?:st|nd|rd|th)? (?:of )?(?:${NAMED}),? \d{4}|(?:${NAMED}) \d{1,2}(?:st|nd|rd|th)?,? \d{4})`

/** Returns midnight UTC of a date in milliseconds; null for an impossible date. */
export function parseUtcDate(text: string): number | null {
  const iso = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text)
  if (iso !== null) return day(Number(iso[1]), Number(iso[2]), Number(iso[3]))
  const year = Number(/(\d{4})$/.exec(text)?.[1])
  const month = MONTHS.findIndex((name) => text.toLowerCase().includes(name)) + 1
  const of = Number(/\b(\d{1,2})(?:st|nd|rd|th)?\b/i.exec(text)?.[1])
  return month === 0 ? null : day(year, month, of)
}

function day(year: number, month: number, date: number): number | null {
  const at = Date.UTC(year, month - 1, date)
  return new Date(at).getUTCMonth() === month - 1 && new Date(at).getUTCDate() === date ? at : null
}

const iso = (at: number): string => new Date(at).toISOString().slice(0, 10)
const form = (text: string) => new RegExp(`^${text.replaceAll('@', `(${DATE_PATTERN})`)}$`, 'i')

const WEEKDAY = form(
  `@ (?:is|was|falls on|fell on|will be|is on|was on)(?: a)? (${WEEKDAYS.join('|')})`,
)
const LEAP = /^(?:the year )?(\d{4}) (?:is|was|will be) a (leap|common) year$/i
const BETWEEN = form('there are ([\\d,]+) days (?:between|from) @ (?:and|to) @')
const SPAN = form(
  '(?:the )?(?:number of days|difference) (?:between|from) @ (?:and|to) @ is ([\\d,]+)(?: days)?',
)
const APART = form('@ (?:is|was) ([\\d,]+) days (before|after) @')
const MONTH = new RegExp(`^(${NAMED})(?: (?:of )?(\\d{4}))? (?:has|had) (\\d{1,2}) days$`, 'i')
const UNIX = form(
  '(?:the )?unix (?:time(?:stamp)? )?(\\d{1,11}) (?:is|was|corresponds to|falls on) @(?:.*)',
)
const TODAY = new RegExp(
  `^(?:today is|the date today is|today's date is|the current date is) (?:a )?(${DATE_PATTERN}|${WEEKDAYS.join('|')})$`,
  'i',
)
const EARLIER = form('@ (?:is|was) (before|after|earlier than|later than) @')

/** Checks weekdays, leap years, spans and timestamps, in UTC. */
export const factCheckDates: FactClaimCheckFunction = (claim, { now }) =>
  weekday(claim) ??
  leap(claim) ??
  span(claim) ??
  month(claim) ??
  unix(claim) ??
  order(claim) ??
  today(claim, now)

function weekday(claim: string): FactCheckFinding | null {
  const [, text = '', claimed = ''] = WEEKDAY.exec(claim) ?? []
  const at = parseUtcDate(text)
  if (at === null) return null
  const is = WEEKDAYS[new Date(at).getUTCDay()] ?? ''
  return exactFinding(
    is === claimed.toLowerCase(),
    capital(is),
    SOURCE,
    `${iso(at)} in the Gregorian calendar.`,
  )
}

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)
const isLeap = (year: number): boolean => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)

function leap(claim: string): FactCheckFinding | null {
  const [, year, kind = ''] = LEAP.exec(claim) ?? []
  if (year === undefined) return null
  const is = isLeap(Number(year)) ? 'leap' : 'common'
  return exactFinding(is === kind.toLowerCase(), `a ${is} year`, SOURCE, 'By the Gregorian rule.')
}

function span(claim: string): FactCheckFinding | null {
  const between = BETWEEN.exec(claim)
  if (between !== null) return days(between[2], between[3], between[1])
  const difference = SPAN.exec(claim)
  if (difference !== null) return days(difference[1], difference[2], difference[3])
  const apart = APART.exec(claim)
  if (apart === null) return null
  const [, one, count, side = '', other] = apart
  return side.toLowerCase() === 'before'
    ? days(one, other, count, true)
    : days(other, one, count, true)
}

/** Checks a number of days; `signed` also checks the direction. */
function days(from = '', to = '', claimed = '', signed = false): FactCheckFinding | null {
  const [one, other] = [parseUtcDate(from), parseUtcDate(to)]
  if (one === null || other === null) return null
  const apart = (other - one) / DAY
  const is = signed ? apart : Math.abs(apart)
  return exactFinding(
    is === Number(claimed.replaceAll(',', '')),
    is,
    SOURCE,
    'Days from midnight to midnight.',
  )
}

function month(claim: string): FactCheckFinding | null {
  const [, name = '', year, claimed] = MONTH.exec(claim) ?? []
  if (claimed === undefined) return null
  const at = MONTHS.indexOf(name.toLowerCase())
  // Without a year the length of February is unknown.
  if (at === 1 && year === undefined) return null
  const has = new Date(Date.UTC(Number(year ?? 2023), at + 1, 0)).getUTCDate()
  return exactFinding(has === Number(claimed), has, SOURCE, 'By the Gregorian calendar.')
}

function unix(claim: string): FactCheckFinding | null {
  const [, seconds, text = ''] = UNIX.exec(claim) ?? []
  const at = parseUtcDate(text)
  if (at === null) return null
  const is = iso(Number(seconds) * 1_000)
  return exactFinding(is === iso(at), is, SOURCE, 'Seconds since 1970-01-01 UTC.')
}

function order(claim: string): FactCheckFinding | null {
  const [, one = '', side = '', other = ''] = EARLIER.exec(claim) ?? []
  const [first, second] = [parseUtcDate(one), parseUtcDate(other)]
  if (first === null || second === null) return null
  const is = first < second ? 'before' : first > second ? 'after' : 'the same day as'
  const says = /before|earlier/i.test(side) ? 'before' : 'after'
  return exactFinding(is === says, is, SOURCE, `${iso(first)} and ${iso(second)}.`)
}

function today(claim: string, now: Date): FactCheckFinding | null {
  const [, claimed = ''] = TODAY.exec(claim) ?? []
  if (claimed === '') return null
  const named = WEEKDAYS.indexOf(claimed.toLowerCase())
  const is = iso(now.getTime())
  if (named >= 0) {
    const right = WEEKDAYS[now.getUTCDay()] ?? ''
    return exactFinding(now.getUTCDay() === named, capital(right), 'clock', `It is ${is} in UTC.`)
  }
  const at = parseUtcDate(claimed)
  return at === null ? null : exactFinding(iso(at) === is, is, 'clock', 'The date in UTC.')
}
