import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import type { TLocalizedValidationError } from 'typebox/error'
import { Settings } from 'typebox/system'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { escapePointer, explained, type Complaint, type Misfit } from '../core/misfit.ts'
import type { Shape } from '../core/shape.ts'

/** Lists why a value does not fit; empty when it does. Never coerces, never changes the value. */
export type Checker = (value: unknown) => readonly Misfit[]

Settings.Set({ maxErrors: 32 })

const UNSTORABLE = /\0|\p{Surrogate}/u

/** Compiles a schema once; the checker names each missing and each unknown field by itself. */
export function checker(schema: TSchema): Checker {
  const compiled = Compile(schema)
  return (value) => (compiled.Check(value) ? [] : explain(schema, value, compiled.Errors(value)))
}

/** A checker of what callers send: it also refuses text and depths that cannot be stored. */
export function inputChecker(schema: TSchema): Checker {
  const fits = checker(schema)
  return (value) => {
    const unstorable = [...unstorableParts(value, '', 0)]
    return unstorable.length > 0 ? unstorable : fits(value)
  }
}

/** Refuses with `invalid_input` and every misfit. */
export function demand(misfits: readonly Misfit[]): void {
  const [first] = misfits
  if (first === undefined) return
  const detail = first.pointer === '' ? first.detail : `${first.pointer} ${first.detail}`
  throw new ServiceError('invalid_input', { detail, errors: misfits })
}

function explain(
  schema: TSchema,
  value: unknown,
  errors: readonly TLocalizedValidationError[],
): Misfit[] {
  const told = errors.filter(({ keyword }) => keyword !== 'boolean')
  const misfits = explained(told.map((error) => complaintOf(schema, value, error)))
  return misfits.length > 0 ? misfits : [UNNAMED]
}

/** Each unknown field is an error of its own, and many of them push all others out of the list. */
const UNNAMED: Misfit = { pointer: '', detail: 'must have no fields that are not described' }

function complaintOf(schema: TSchema, value: unknown, error: TLocalizedValidationError): Complaint {
  const { instancePath, keyword, schemaPath, message } = error
  return {
    keyword,
    at: instancePath,
    path: schemaPath,
    names: namesOf(error),
    shape: (within(schema, schemaPath.replace(/^#/, '')) ?? {}) as Shape,
    given: within(value, instancePath),
    message,
  }
}

function namesOf({ keyword, params }: TLocalizedValidationError): readonly string[] {
  const { requiredProperties, additionalProperties } = params as Record<string, string[]>
  if (keyword === 'required') return requiredProperties ?? []
  return keyword === 'additionalProperties' ? (additionalProperties ?? []) : []
}

/** The part of a value that a pointer leads to. */
function within(value: unknown, pointer: string): unknown {
  let part = value
  for (const step of pointer.split('/').slice(1)) {
    const name = step.replace(/~1/g, '/').replace(/~0/g, '~')
    if (typeof part !== 'object' || part === null || !Object.hasOwn(part, name)) return undefined
    part = (part as Record<string, unknown>)[name]
  }
  return part
}

/** NUL and lone surrogates: Postgres stores neither, and one such row would fail a whole commit. */
function* unstorableParts(value: unknown, pointer: string, depth: number): Generator<Misfit> {
  if (depth > LIMITS.jsonDepth)
    yield { pointer, detail: `is nested deeper than ${LIMITS.jsonDepth} levels` }
  else if (typeof value === 'string') {
    if (UNSTORABLE.test(value)) yield { pointer, detail: 'must be well-formed text without NUL' }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, inner] of Object.entries(value)) {
      if (UNSTORABLE.test(name)) yield { pointer, detail: 'must have well-formed field names' }
      else yield* unstorableParts(inner, `${pointer}/${escapePointer(name)}`, depth + 1)
    }
  }
}
