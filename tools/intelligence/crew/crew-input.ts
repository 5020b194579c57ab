import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { CREW_KINDS, CREW_FIELDS, CREW_DEFINITIONS, type CrewKind } from './crew-definitions.ts'

type Body = Record<string, unknown>

/** What a crew is asked, by the names of its fields. */
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
 * The body with the names of the interface, and with the type that its fields belong to where it
 * names none. Refuses a body whose fields belong to several.
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

/** Refuses what lacks a field of its type, or has one of another. */
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

/** `normalise` has named it, or the schema has refused. */
export const crewKindOf = ({ type }: CrewInput): CrewKind => type ?? 'custom'

export function crewFieldText(input: CrewInput, name: Exclude<keyof CrewInput, 'type'>): string {
  return (input[name] ?? '').trim()
}
