import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import type { TLocalizedValidationError } from 'typebox/error'
import { Settings } from 'typebox/system'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { unsaid } from '../core/said.ts'

/** One reason a value does not fit, by JSON pointer (RFC 6901). */
export interface Misfit {
  readonly pointer: string
  readonly detail: string
}

/** Lists why a value does not fit; empty when it does. Never coerces, never changes the value. */
export type Checker = (value: unknown) => readonly Misfit[]

Settings.Set({ maxErrors: 32 })

const UNSTORABLE = /\0|\p{Surrogate}/u

/** Compiles a schema once; the checker names each missing and each unknown field by itself. */
export function checker(schema: TSchema): Checker {
  const compiled = Compile(schema)
  return (value) => (compiled.Check(value) ? [] : explain(compiled.Errors(value)))
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

const escape = (name: string): string => name.replace(/~/g, '~0').replace(/\//g, '~1')

function explain(errors: readonly TLocalizedValidationError[]): Misfit[] {
  const alternatives = errors.filter((error) => error.keyword === 'anyOf')
  const branches = alternatives.map((error) => `${error.schemaPath}/anyOf/`)
  return errors
    .filter((error) => error.keyword !== 'boolean')
    .filter((error) => !branches.some((branch) => error.schemaPath.startsWith(branch)))
    .flatMap(misfitsOf)
}

function misfitsOf(error: TLocalizedValidationError): Misfit[] {
  const at = error.instancePath
  if (error.keyword === 'required') {
    const { requiredProperties } = error.params as { requiredProperties: string[] }
    return requiredProperties.map((name) => ({
      pointer: `${at}/${escape(name)}`,
      detail: 'is required',
    }))
  }
  if (error.keyword === 'additionalProperties') {
    const { additionalProperties } = error.params as { additionalProperties: string[] }
    return additionalProperties.map((name) => ({
      pointer: `${at}/${escape(name)}`,
      detail: 'is not a field of this tool',
    }))
  }
  if (error.keyword === 'enum') {
    const { allowedValues } = error.params as { allowedValues: unknown[] }
    return [{ pointer: at, detail: `must be one of ${allowedValues.join(', ')}` }]
  }
  return [{ pointer: at, detail: unsaid(error.keyword, error.params) ?? error.message }]
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
      else yield* unstorableParts(inner, `${pointer}/${escape(name)}`, depth + 1)
    }
  }
}
