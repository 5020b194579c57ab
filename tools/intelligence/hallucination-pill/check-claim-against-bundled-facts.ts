import { STATUS_CODES } from 'node:http'
import {
  exactFinding,
  normalizeName,
  unverifiableFinding,
  type FactClaimCheckFunction,
  type FactCheckFinding,
} from './fact-claim-normalizer-and-finding-types.ts'
import { DATE_PATTERN, parseUtcDate } from './fact-check-dates.ts'
import { BUNDLED_FACTS, FACT_PHRASES, type BundledFact } from './bundled-facts.ts'
import {
  expressionDifference,
  matchesQuantity,
  NUMBER_PATTERN,
  parseClaimedQuantity,
  evaluateExpression,
} from './claimed-quantity.ts'

/** Checks claims against the bundled facts. */

const SUBJECT = String.raw`(?:the )?(?<subject>[\p{L}\p{N}][\p{L}\p{N} .-]{0,40}?)`
const AMOUNT = `(?<value>${NUMBER_PATTERN})`
const VALUE = String.raw`(?:the )?(?<value>[^?]{1,80}?)`

interface Form {
  readonly relation: string
  readonly pattern: RegExp
}
const FORMS: readonly Form[] = Object.entries(FACT_PHRASES).flatMap(([relation, phrases]) =>
  phrases.map((phrase) => ({
    relation,
    pattern: new RegExp(
      `^(?:the )?${phrase.replace('@', SUBJECT).replace('##', AMOUNT).replace('#', VALUE)}$`,
      'iu',
    ),
  })),
)
const STATUS = /^(?:the )?(?:http )?(?:status )?(?:code )?(\d{3}) (?:means|stands for|is) (.+)$/i

/** Checks a claim against the bundled facts, each of which has a source and a date. */
export const factCheckBundledFacts: FactClaimCheckFunction = (claim) => status(claim) ?? fact(claim)

/** A claim may be parsed in several ways; a right one counts before a wrong one. */
function fact(claim: string): FactCheckFinding | null {
  const found = FORMS.flatMap(({ relation, pattern }) => {
    const { subject = '', value = '' } = pattern.exec(claim)?.groups ?? {}
    if (subject === '') return []
    const known = BUNDLED_FACTS.find(
      (one) =>
        one.relation === relation &&
        one.subject.some((name) => normalizeName(name) === normalizeName(subject)),
    )
    const judged = known === undefined ? null : judge(known, value)
    return judged === null ? [] : [judged]
  })
  return (
    found.find(({ holds }) => holds === true) ??
    found.find(({ holds }) => holds === false) ??
    found[0] ??
    null
  )
}

function judge(known: BundledFact, claimed: string): FactCheckFinding | null {
  const source = `${known.source} (as of ${known.asOf})`
  const [value = ''] = known.values
  const holds = known.values.some((one) => same(one, claimed))
  if (!holds && (known.open || !comparable(known, claimed))) {
    return unverifiableFinding(source, `Known is ${value}; there may be others.`)
  }
  return exactFinding(holds, value, source, `${known.subject[0]}: ${known.relation} is ${value}.`)
}

/** Compares values: a year, month or day may be claimed of a date, and numbers may be words. */
function same(right: string, claimed: string): boolean {
  if (normalizeName(right) === normalizeName(claimed)) return true
  if (/^\d{4}-\d{2}-\d{2}$/.test(right)) return sameDate(right, claimed)
  const [one, other] = [parseClaimedQuantity(right), parseClaimedQuantity(claimed)]
  if (one === null || other === null || !alike(one.unit, other.unit, claimed)) return false
  if (other.mode === 'is') return expressionDifference(one.value, other.value)?.exact === true
  const number = evaluateExpression(one.value)
  return number !== null && matchesQuantity(other, number, { is: 0, about: 0.1 }) === true
}

/** Compares units: a missing unit is right, and dollars are not a unit here. */
function alike(right: string, claimed: string, text: string): boolean {
  const plainUnit = (unit: string) => normalizeName(unit).replace(/s$/, '')
  if (text.includes('$')) return false
  return claimed === '' || right === '' || plainUnit(right) === plainUnit(claimed)
}

function sameDate(right: string, claimed: string): boolean {
  const at = parseUtcDate(claimed)
  if (at !== null) return new Date(at).toISOString().startsWith(right)
  if (/^\d{4}$/.test(claimed)) return right.startsWith(claimed)
  const month = new Date(`${right}T00:00:00Z`).toLocaleString('en', {
    month: 'long',
    timeZone: 'UTC',
  })
  return normalizeName(claimed) === `${month.toLowerCase()} ${right.slice(0, 4)}`
}

/** Returns whether a different value is of the same kind, and therefore wrong rather than unrelated. */
function comparable({ relation, values: [value = ''] }: BundledFact, claimed: string): boolean {
  if (relation === 'consensus') return /^proof of |^po[sw]$/i.test(claimed)
  if (relation === 'capital') return /^\p{Lu}[\p{L} .-]*$/u.test(claimed)
  if (/^\d{4}-\d{2}-\d{2}$/.test(value)) return WHEN.test(claimed)
  const [right, other] = [parseClaimedQuantity(value), parseClaimedQuantity(claimed)]
  if (right !== null) return other !== null && alike(right.unit, other.unit, claimed)
  if (relation === 'maximum supply') return other !== null
  if (relation === 'kind' && /layer|rollup/.test(value)) return /^layer \d$|^l\d$/i.test(claimed)
  // An unlisted word may be a synonym.
  return BUNDLED_FACTS.some(
    (one) =>
      one.relation === relation &&
      one.values.some((name) => normalizeName(name) === normalizeName(claimed)),
  )
}
const WHEN = new RegExp(`^(?:${DATE_PATTERN}|\\d{4}|[a-z]+ \\d{4})$`, 'i')

function status(claim: string): FactCheckFinding | null {
  const [, code = '', claimed = ''] = STATUS.exec(claim) ?? []
  if (code === '' || !/http|status|code|means|stands/i.test(claim)) return null
  const is = STATUS_CODES[code]
  if (is === undefined) return null
  const source = 'iana.org status codes'
  if (normalizeName(is) === normalizeName(claimed))
    return exactFinding(true, is, source, `HTTP ${code} is ${is}.`)
  // A synonym is not wrong; the phrase of another code is.
  const others = Object.values(STATUS_CODES).some(
    (one) => normalizeName(one ?? '') === normalizeName(claimed),
  )
  return others
    ? exactFinding(false, is, source, `HTTP ${code} is ${is}.`)
    : unverifiableFinding(source, `HTTP ${code} is ${is}.`)
}
