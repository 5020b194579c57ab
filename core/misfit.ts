import { nearest } from './near.ts'
import { unsaid } from './said.ts'
import { CHARACTERS, countOf, kindOf, nounOf, takesKindOf, type Shape } from './shape.ts'

/** One reason a value does not fit, by JSON pointer (RFC 6901). */
export interface Misfit {
  readonly pointer: string
  readonly detail: string
  /** The field that was meant, where an unknown one is spelt nearly like it. */
  readonly did_you_mean?: string
}

/** What a validator complains of, with the part of the schema and the value it is about. */
export interface Complaint {
  readonly keyword: string
  /** The pointer of the value, and the place in the schema. */
  readonly at: string
  readonly path: string
  /** The fields that are missing or unknown. */
  readonly names: readonly string[]
  readonly shape: Shape
  readonly given: unknown
  /** Query, path and headers are text on the wire: that it is a string tells nothing there. */
  readonly onWire?: boolean
  /** What the validator says itself, for what has no words of ours. */
  readonly message: string
}

const ENTRIES = ['entry', 'entries'] as const
const FIELDS = ['field', 'fields'] as const

/** A name as a part of a JSON pointer. */
export const escapePointer = (name: string): string =>
  name.includes('~') || name.includes('/') ? name.replace(/~/g, '~0').replace(/\//g, '~1') : name

/** The complaints of a validator in plain words: what is wrong, and what is taken instead. */
export function explained(complaints: readonly Complaint[]): Misfit[] {
  return withoutBranches(complaints).flatMap(misfitsOf)
}

const isChoice = ({ keyword }: Complaint): boolean => keyword === 'anyOf' || keyword === 'oneOf'

/**
 * A value that fits no alternative is complained of once for each. Where one of them had the right
 * kind, what it complains of inside is told, else the alternatives are.
 */
function withoutBranches(complaints: readonly Complaint[]): Complaint[] {
  const untold = new Set<Complaint>()
  for (const choice of complaints.filter(isChoice)) {
    const branches = complaints.filter((one) => one !== choice && isWithin(one, choice))
    const inside = branches.filter(({ at, names }) => at !== choice.at || names.length > 0)
    if (inside.length > 0) untold.add(choice)
    for (const branch of branches) if (!inside.includes(branch)) untold.add(branch)
  }
  return complaints.filter((complaint) => !untold.has(complaint))
}

const isWithin = ({ path }: Complaint, choice: Complaint): boolean =>
  path.startsWith(`${choice.path}/${choice.keyword}/`)

function misfitsOf(complaint: Complaint): Misfit[] {
  const { at, keyword, names } = complaint
  if (names.length === 0) return [{ pointer: at, detail: detailOf(complaint) }]
  return names.map((name) => ({
    pointer: `${at}/${escapePointer(name)}`,
    ...(keyword === 'required' ? missing(name, complaint) : unknown(name, complaint)),
  }))
}

/** A field that is missing may stand there by another name. */
function missing(name: string, { given, shape }: Complaint) {
  const known = shape.properties ?? {}
  const strange = namesIn(given).filter((one) => !Object.hasOwn(known, one))
  const meant = nearest(name, strange)
  const hint = meant === null ? '' : `: did you mean it by ${meant}?`
  return { detail: `is required${hint}` }
}

function unknown(name: string, { given, shape, onWire }: Complaint) {
  const there = new Set(namesIn(given))
  const known = Object.entries(shape.properties ?? {})
  // The default of a field was filled in before: that field was not given.
  const open = known.filter(([one, field]) => !there.has(one) || field.default !== undefined)
  const meant = nearest(
    name,
    open.map(([one]) => one),
  )
  const detail = onWire === true ? 'is not a parameter here' : 'is not a field here'
  return meant === null
    ? { detail }
    : { detail: `${detail}: did you mean ${meant}?`, did_you_mean: meant }
}

const namesIn = (given: unknown): string[] =>
  typeof given === 'object' && given !== null ? Object.keys(given) : []

const TYPED = new Set(['type', 'anyOf', 'oneOf'])

function detailOf({ keyword, shape, given, message, onWire }: Complaint): string {
  if (onWire === true && TYPED.has(keyword) && typeof given === 'string')
    return `must be ${nounOf(shape)}`
  switch (keyword) {
    case 'type':
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return `must be ${nounOf(shape)}, not ${kindOf(given)}`
    case 'anyOf':
    case 'oneOf':
      return takesKindOf(shape, given)
        ? `must be ${nounOf(shape)}`
        : `must be ${nounOf(shape)}, not ${kindOf(given)}`
    case 'enum':
    case 'const':
      return `must be ${nounOf(shape)}`
    case 'minLength':
    case 'maxLength':
      return `must have ${countOf(CHARACTERS, shape.minLength, shape.maxLength)}`
    case 'minItems':
    case 'maxItems':
      return `must have ${countOf(ENTRIES, shape.minItems, shape.maxItems)}`
    case 'minProperties':
    case 'maxProperties':
      return `must have ${countOf(FIELDS, shape.minProperties, shape.maxProperties)}`
    case 'uniqueItems':
      return 'must not have the same entry twice'
    case 'pattern':
      return unsaid(shape.pattern, undefined) ?? byDescription(shape)
    case 'format':
      return unsaid(undefined, shape.format) ?? byDescription(shape)
    default:
      return message
  }
}

/** For a pattern that nobody has put in words. */
const byDescription = ({ description }: Shape): string =>
  description === undefined ? 'has a form that is not taken here' : `must be: ${description}`
