import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { CREW_KINDS, CREW_FIELDS, CREW_DEFINITIONS, type CrewKind } from './crew-definitions.ts'

/** Normalises and validates the input of a crew. */

type Body = Record<string, unknown>

/** Input of a crew by canonical field names. */
export interface CrewInput {
  readonly type?: CrewKind
  readonly domain?: string
  readonly topic?: string
  readonly targetAudience?: string
  readonly icpDescription?: string
  readonly offerDescription?: string
  readonly goal?: string
}

/**
 * Renames synonyms to canonical fields and infers a missing type from them. Throws for fields that belong to
 * several types.
 */
export function normalizeCrewInput(body: Body): Body {
  const named: Body = { ...body }
  for (const { name, aliases } of CREW_FIELDS) {
    for (const alias of aliases) {
      if (!(alias in named)) continue
      if (!(name in named)) named[name] = named[alias]
      delete named[alias]
    }
  }
  return named['type'] === undefined ? { ...named, type: inferCrewKind(named) } : named
}

function inferCrewKind(body: Body): CrewKind {
  const kinds = CREW_KINDS.filter((kind) =>
    CREW_DEFINITIONS[kind].fields.some(({ name }) => name in body),
  )
  const [kind] = kinds
  if (kind !== undefined && kinds.length === 1) return kind
  const why =
    kind === undefined
      ? 'no field tells which'
      : `fields of ${kinds.join(' and ')} stand side by side`
  throw invalidInputError('/type', `is needed: ${why}. One of ${CREW_KINDS.join(', ')}`)
}

/** Throws for a missing field, and for one of another type. */
export function assertCrewFields(input: CrewInput): void {
  const kind = crewKindOf(input)
  const own = new Set(CREW_DEFINITIONS[kind].fields.map(({ name }) => name))
  const errors = [
    ...CREW_DEFINITIONS[kind].fields.flatMap(({ name }) =>
      name in input ? [] : [{ pointer: `/${name}`, detail: 'is required' }],
    ),
    ...CREW_FIELDS.flatMap(({ name }) =>
      name in input && !own.has(name)
        ? [{ pointer: `/${name}`, detail: `is not a field of a ${kind} crew` }]
        : [],
    ),
  ]
  const [first] = errors
  if (first === undefined) return
  throw new ServiceError('invalid_input', { detail: `${first.pointer} ${first.detail}`, errors })
}

/** The type is set by `normalise`, or the schema has refused the input. */
export const crewKindOf = ({ type }: CrewInput): CrewKind => type ?? 'custom'

export function crewFieldText(input: CrewInput, name: Exclude<keyof CrewInput, 'type'>): string {
  return (input[name] ?? '').trim()
}
